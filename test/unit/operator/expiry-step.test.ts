import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import type { Condition } from "../../../crds/schema/condition.ts";
import { type ExpiryStep, expiryStep, followExpiry } from "../../../operator/claim/release-when-expired.ts";
import { testOperator } from "./test-operator.ts";

const NOW = Date.parse("2026-01-01T10:00:00Z");
const MINUTE = 60_000;
const at = (ms: number): string => new Date(NOW + ms).toISOString();
const condition: Condition = {
  ...{ type: "ExpiresSoon", status: "True", reason: "ExpiresSoon", message: "m" },
  lastTransitionTime: at(-MINUTE),
};
const active: ClaimStatus = { phase: "Active", observedGeneration: 1, claimedAt: at(-5 * MINUTE) };
const wait = (forMs: number): ExpiryStep => ({ kind: "wait", forMs });
const show = (isSoon: boolean): ExpiryStep => ({ kind: "show", isSoon });

/** `left`: milliseconds until the expiry, `null` without one; `shown`: those that the status shows, the same by default. */
interface Case {
  left: number | null;
  shown?: number | null;
  status?: Partial<Omit<ClaimStatus, "observedGeneration">> & { observedGeneration?: undefined };
  says?: boolean;
  is: ExpiryStep;
}

const cases: [title: string, of: Case][] = [
  ["one that does not expire", { left: null, is: { kind: "none" } }],
  ["one that expires in a year", { left: 365 * 24 * 60 * MINUTE, is: wait(365 * 24 * 60 * MINUTE - MINUTE) }],
  ["one with more than a minute left", { left: MINUTE + 1, is: wait(1) }],
  ["one with a minute left", { left: MINUTE, is: show(true) }],
  ["one with less left, found by a new leader", { left: 1000, is: show(true) }],
  ["one that has said so", { left: 1000, says: true, is: wait(1000) }],
  ["one that has expired", { left: 0, is: { kind: "release" } }],
  ["one that expired long ago, as while no operator led", { left: -60 * MINUTE, is: { kind: "release" } }],
  ["one that expired before it said so", { left: -1, says: true, is: { kind: "release" } }],
  ["one that waits for its pod", { left: 1000, status: { phase: "Pending" }, is: wait(1000) }],
  ["one that failed", { left: 1000, status: { phase: "Error" }, is: wait(1000) }],
  ["one that failed and has expired", { left: -1, status: { phase: "Error" }, is: { kind: "release" } }],
  [
    "one that has lost its pod since it said so",
    { left: 1000, says: true, status: { phase: "Pending" }, is: wait(1000) },
  ],
  ["one that was to last a minute", { left: MINUTE - 10, status: { claimedAt: at(-10) }, is: wait(MINUTE - 10) }],
  ["one that was extended", { left: 10 * MINUTE, shown: MINUTE, is: show(false) }],
  ["one that was extended after it said so", { left: 10 * MINUTE, shown: 1000, says: true, is: show(false) }],
  ["one that was extended by seconds after it said so", { left: 30_000, shown: 1000, says: true, is: show(true) }],
  ["one that does not expire any more", { left: null, shown: MINUTE, is: show(false) }],
  ["one that says so in vain", { left: null, says: true, is: show(false) }],
  ["one that expires now too", { left: 10 * MINUTE, shown: null, is: show(false) }],
  [
    "one that no operator has looked at",
    {
      left: 10 * MINUTE,
      shown: null,
      status: { phase: "Pending", observedGeneration: undefined },
      is: wait(9 * MINUTE),
    },
  ],
];

function claimOf({ left, shown = left, status, says }: Case): Claim {
  return {
    metadata: { name: "c", uid: "u" },
    spec: { tenantId: "t", workloadRef: "w", ...(left !== null && { expiresAt: at(left) }) },
    status: {
      ...active,
      ...status,
      ...(shown !== null && { expiresAt: at(shown) }),
      ...(says === true && { conditions: [condition] }),
    } as ClaimStatus,
  };
}

for (const [title, of] of cases) {
  test(`expiryStep: ${title}`, () => {
    assert.equal(expiryStep(claimOf(of), NOW), of.is);
  });
}

/** An Active claim with a pod, under an operator whose clock stands. */
function follows(of: Omit<Case, "is">, podAnnotations: Record<string, string> = {}) {
  const { api, context, events } = testOperator({ serverNow: () => NOW });
  const claim = claimOf({ ...of, status: { instanceId: "inst", ...of.status }, is: { kind: "none" } });
  api.add(claims, { ...claim, metadata: { ...claim.metadata, finalizers: ["tenancy.dev/release"] } });
  api.add(pods, {
    metadata: { name: "inst", uid: "p", annotations: { [annotation.claimUid]: "u", ...podAnnotations } },
    spec: { containers: [] },
  });
  return {
    api,
    context,
    reasons: () => events.map(({ reason }) => reason),
    read: () => api.read(claims, "c"),
    run: async () => followExpiry(api.read(claims, "c"), context),
  };
}

test("followExpiry: says once that the claim expires soon, with one write", async () => {
  const { api, read, run, reasons } = follows({ left: 1000, shown: null });
  assert.equal(await run(), { isWritten: true });
  assert.equal([api.calls.length, reasons()], [1, ["ExpiresSoon"]]);
  assert.is(read().status?.expiresAt, at(1000));
  // As a new leader, which has recorded nothing.
  assert.equal(await run(), { isWritten: false, requeueAfterMs: 1000 });
  assert.equal([api.calls.length, reasons()], [1, ["ExpiresSoon"]]);
});

test("followExpiry: what is said of an expiry goes when the claim is extended", async () => {
  const { read, run, reasons } = follows({ left: 10 * MINUTE, shown: 1000, says: true });
  assert.equal(await run(), { isWritten: true });
  const { conditions = [], expiresAt } = read().status ?? {};
  assert.equal([conditions.some(({ type }) => type === "ExpiresSoon"), expiresAt], [false, at(10 * MINUTE)]);
  assert.equal([await run(), reasons()], [{ isWritten: false, requeueAfterMs: 9 * MINUTE }, []]);
});

test("followExpiry: an extension by seconds is shown, and not announced again", async () => {
  const { read, run, reasons } = follows({ left: 30_000, shown: 1000, says: true });
  assert.equal([await run(), reasons()], [{ isWritten: true }, []]);
  const { conditions = [], expiresAt } = read().status ?? {};
  assert.match(conditions.find(({ type }) => type === "ExpiresSoon")?.message ?? "", at(30_000));
  assert.is(expiresAt, at(30_000));
});

const overlays = { [annotation.overlayDirs]: '["/data"]' };
const actions: [title: string, annotations: Record<string, string>, discards: boolean][] = [
  ["hibernate", { ...overlays, [annotation.idleAction]: "hibernate" }, false],
  ["destroy", { ...overlays, [annotation.idleAction]: "destroy" }, true],
  ["destroy of a workload without files", { [annotation.idleAction]: "destroy" }, false],
];
for (const [title, annotations, discards] of actions) {
  test(`followExpiry: releases an expired claim, idle.action ${title}`, async () => {
    const { read, run, reasons } = follows({ left: -1 }, annotations);
    assert.equal(await run(), { isWritten: true });
    const { deletionTimestamp, annotations: given } = read().metadata;
    assert.ok(deletionTimestamp);
    assert.is(given?.[annotation.discardExpired], discards ? at(-1) : undefined);
    assert.equal(reasons(), ["Expired"]);
  });
}

test("followExpiry: a claim that was extended a moment ago stays", async () => {
  const { api, context, read, reasons } = follows({ left: -1 });
  const stale = read();
  await api
    .cluster(claims)
    .named("c")
    .patch({ spec: { expiresAt: at(MINUTE) } });
  await followExpiry(stale, context).then(
    () => assert.unreachable(),
    (error: { status?: number }) => assert.is(error.status, 409),
  );
  assert.equal([read().metadata.deletionTimestamp, reasons()], [undefined, []]);
});

test.run();
