// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ClaimStatus } from "../../../crds/claim.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { eventually } from "../../eventually.ts";
import { active, answered, claim, edgeWithWorkload, NAME, pair, waiting } from "./claim-calls.ts";

const test = suite("claims that fail");

for (const [reason, status] of [
  ["WorkloadNotFound", 404],
  ["Duplicate", 409],
  ["QuotaExceeded", 503],
  ["WorkloadTerminating", 409],
  ["WorkloadNotReady", 500],
  ["ImagePullFailed", 500],
  ["StartTimeout", 500],
  ["RestoreFailed", 500],
] as const) {
  test(`a claim that this call created and that ends in ${reason} is a ${status} with its message`, async () => {
    const edge = edgeWithWorkload();
    const pending = claim(edge);
    await waiting(edge);
    edge.cluster.setStatus(NAME, { phase: "Error", reason, message: `why: ${reason}` });
    const answer = await pending;
    assert.is(answer.status, status);
    assert.equal(answer.json, { error: `why: ${reason}` });
    assert.equal(edge.cluster.verbs(), ["create"]);
  });
}

test("a claim on a workload that is being deleted is a 409, and none is made", async () => {
  const edge = edgeWithWorkload();
  // Of a workload that is held by somebody's claim.
  const held = await edge.call("POST /api/v1/workloads", { body: { name: "held", spec: { image: { ref: "a:1" } } } });
  assert.is(held.status, 201);
  assert.is((await edge.call("DELETE /api/v1/workloads/held")).status, 200);
  const answer = await claim(edge, { workload: "held" });
  assert.is(answer.status, 409);
  assert.match(answer.error ?? "", 'workload "held" is being deleted');
  assert.not.ok(edge.cluster.has(claims, "claim-a-held"));
});

test("a claim that fails before its creation is answered is shared too, not revived", async () => {
  const edge = edgeWithWorkload();
  const { create } = edge.cluster.client;
  Object.assign(edge.cluster.client, {
    async create(...call: Parameters<typeof create>) {
      const made = await create(...call);
      edge.cluster.setStatus(NAME, { phase: "Error", message: "at once" });
      return made;
    },
  });
  assert.equal((await claim(edge)).json, { error: "at once" });
  assert.equal(edge.cluster.verbs(), ["create"]);
});

test("a claim that had failed is revived once, with the resourceVersion as the precondition", async () => {
  const edge = edgeWithWorkload();
  const failed = edge.cluster.addClaim({
    ...pair,
    status: { phase: "Error", message: "old" },
  });
  const pending = claim(edge, { workload: "app", resume: true });
  await waiting(edge);
  assert.equal(edge.cluster.calls, [
    {
      verb: "patch",
      kind: "tenancyclaims",
      name: NAME,
      body: {
        metadata: {
          resourceVersion: failed.metadata.resourceVersion,
          annotations: {
            [annotation.attempt]: "attempt-1",
            [annotation.requestedAt]: "2026-01-01T00:00:00.000Z",
          },
        },
        spec: { resume: true },
      },
    },
  ]);
  edge.cluster.setStatus(NAME, { phase: "Pending" });
  edge.cluster.setStatus(NAME, active);
  assert.equal((await pending).json, answered);
});

test("a revived claim that fails again is answered with the new message, not revived for ever", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, status: { phase: "Error", message: "old" } });
  const pending = claim(edge);
  await waiting(edge);
  edge.cluster.setStatus(NAME, { phase: "Error", reason: "ImagePullFailed", message: "new" });
  assert.equal((await pending).json, { error: "new" });
  assert.equal(edge.cluster.verbs(), ["patch"]);
});

test("a call that joins an attempt under way shares its failure", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, status: { phase: "Error", message: "old" } });
  const calls = [claim(edge), claim(edge)];
  await waiting(edge, 2);
  // The second meets the patched claim, or loses the race for the patch and meets it then.
  assert.is(edge.cluster.claim(NAME).metadata.annotations?.[annotation.attempt], "attempt-1");
  edge.cluster.setStatus(NAME, { phase: "Error", message: "new" });
  for (const answer of await Promise.all(calls)) assert.equal(answer.json, { error: "new" });
});

test("a revival that somebody else's write overtakes looks again", async () => {
  const edge = edgeWithWorkload();
  edge.cluster.addClaim({ ...pair, status: { phase: "Error", message: "old" } });
  edge.cluster.onNext("patch", () => edge.cluster.setStatus(NAME, active));
  const pending = claim(edge);
  await eventually(() => edge.clock.pending() === 2);
  await edge.clock.runNext();
  assert.equal((await pending).json, { ...answered, source: "existing" });
});

test("a release that failed is a 500 with the claim's message, at once", async () => {
  const edge = edgeWithWorkload();
  const status: ClaimStatus = { phase: "ReleaseFailed", message: "the archive could not be written: disk full" };
  edge.cluster.addClaim({ ...pair, status, deleting: true });
  const answer = await claim(edge);
  assert.is(answer.status, 500);
  assert.equal(answer.json, { error: status.message });
});

test.run();
