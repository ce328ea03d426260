import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { drainLeftMs } from "../../../operator/claim/drain.ts";

const test = suite("drainLeftMs");

const NOW = Date.parse("2026-01-01T00:00:10Z");
const at = (seconds: number) => new Date(NOW + seconds * 1000).toISOString();
const claim = (deletedAt: number) => ({ metadata: { name: "c", deletionTimestamp: at(deletedAt) } }) as Claim;
const pod = (until: Record<string, string>, more: object = {}) => {
  const annotations = Object.fromEntries(
    Object.entries(until).map(([edge, time]) => [`inflight.tenancy.dev/${edge}`, time]),
  );
  return { metadata: { name: "p", annotations, ...more } } as unknown as Pod;
};

test("waits for the last edge that says so", () => {
  assert.is(drainLeftMs(claim(0), [pod({})], NOW), 0);
  assert.is(drainLeftMs(claim(0), [pod({ a: at(3), b: at(5) }), pod({ c: at(4) })], NOW), 5000);
  assert.is(drainLeftMs(claim(0), [pod({ a: at(-1) })], NOW), 0);
});

test("never longer than 15 s from the release on, whatever is written there", () => {
  assert.is(drainLeftMs(claim(0), [pod({ a: at(3600) })], NOW), 15_000);
  assert.is(drainLeftMs(claim(-10), [pod({ a: at(3600) })], NOW), 5000);
  assert.is(drainLeftMs(claim(-20), [pod({ a: at(3600) })], NOW), 0);
  assert.is(drainLeftMs(claim(0), [pod({ a: "soon" })], NOW), 0);
});

test("a pod that is being deleted, and annotations of others, hold nothing", () => {
  assert.is(drainLeftMs(claim(0), [pod({ a: at(3) }, { deletionTimestamp: at(0) })], NOW), 0);
  assert.is(drainLeftMs(claim(0), [pod({}, { annotations: { "tenancy.dev/a": at(3) } })], NOW), 0);
  assert.is(drainLeftMs(claim(0), [pod({}, { annotations: undefined })], NOW), 0);
});

test.run();
