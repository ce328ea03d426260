// @runtimes bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { annotation } from "../../../crds/labels.ts";
import { attemptKey, claimStep } from "../../../edge/api/claims/claim-step.ts";

const test = suite("claimStep");

function claim(
  fields: { name?: string; status?: ClaimStatus; attempt?: string; deleting?: boolean; createdAt?: string } = {},
): Claim {
  const { name = "c", status, attempt, deleting, createdAt } = fields;
  return {
    metadata: {
      name,
      uid: `uid-${name}`,
      creationTimestamp: createdAt ?? "2026-01-01T00:00:00Z",
      ...(attempt !== undefined && { annotations: { [annotation.attempt]: attempt } }),
      ...(deleting === true && { deletionTimestamp: "2026-01-02T00:00:00Z" }),
    },
    spec: { tenantId: "a", workloadRef: "app" },
    ...(status !== undefined && { status }),
  };
}

const none = new Set<string>();
const kindOf = (fields: Parameters<typeof claim>[0], shared: "shared" | "fresh" = "fresh") => {
  const one = claim(fields);
  return claimStep([one], shared === "shared" ? new Set([attemptKey(one)]) : none).kind;
};

test("creates where there is nothing", () => {
  assert.equal(claimStep([], none), { kind: "create" });
});

test("answers Active, whoever made it so", () => {
  for (const shared of ["shared", "fresh"] as const) {
    assert.is(kindOf({ status: { phase: "Active" } }, shared), "answer");
    assert.is(kindOf({ status: { phase: "Active", attempt: "1" }, attempt: "2" }, shared), "answer");
  }
});

test("answers a destroyed claim for a look at its pod, and waits where it is being tried anew", () => {
  const status = { phase: "Active", instanceId: "p", attempt: "1" } as const;
  const step = (attempt: string) => {
    const one = claim({ status, attempt });
    Object.assign(one.metadata.annotations ?? {}, { [annotation.destroyed]: "p" });
    return claimStep([one], none).kind;
  };
  assert.is(step("1"), "answer");
  assert.is(step("2"), "wait");
});

test("waits while the operator works or a release is under way", () => {
  assert.is(kindOf({}), "wait");
  for (const phase of ["Pending", "Releasing", "Released"] as const) assert.is(kindOf({ status: { phase } }), "wait");
  for (const phase of ["Pending", "Active", "Releasing", "Released", "Error"] as const) {
    assert.is(kindOf({ status: { phase }, deleting: true }), "wait", phase);
    assert.is(kindOf({ status: { phase }, deleting: true }, "shared"), "wait", phase);
  }
});

test("fails at once where a release could not save the data", () => {
  assert.is(kindOf({ status: { phase: "ReleaseFailed" }, deleting: true }), "fail");
  assert.is(kindOf({ status: { phase: "ReleaseFailed" } }), "fail");
});

test("fails with an attempt that this call shared, and revives one that it did not", () => {
  assert.is(kindOf({ status: { phase: "Error" } }), "revive");
  assert.is(kindOf({ status: { phase: "Error" } }, "shared"), "fail");
  assert.is(kindOf({ status: { phase: "Error", attempt: "1" }, attempt: "1" }), "revive");
  assert.is(kindOf({ status: { phase: "Error", attempt: "1" }, attempt: "1" }, "shared"), "fail");
});

test("waits for an attempt that the operator has not answered", () => {
  for (const shared of ["shared", "fresh"] as const) {
    assert.is(kindOf({ status: { phase: "Error" }, attempt: "1" }, shared), "wait");
    assert.is(kindOf({ status: { phase: "Error", attempt: "1" }, attempt: "2" }, shared), "wait");
  }
});

test("an attempt of the object before, or another attempt of this one, is not shared", () => {
  const shared = new Set([attemptKey(claim({ name: "before" })), attemptKey(claim({ attempt: "1" }))]);
  assert.is(claimStep([claim({ status: { phase: "Error" } })], shared).kind, "revive");
  assert.is(claimStep([claim({ status: { phase: "Error", attempt: "2" }, attempt: "2" })], shared).kind, "revive");
});

test("the oldest object that is no duplicate speaks for the pair", () => {
  const duplicate = claim({
    name: "a",
    status: { phase: "Error", reason: "Duplicate" },
    createdAt: "2026-01-01T00:00:00Z",
  });
  const older = claim({ name: "b", status: { phase: "Active" }, createdAt: "2026-01-02T00:00:00Z" });
  const newer = claim({ name: "c", status: { phase: "Pending" }, createdAt: "2026-01-03T00:00:00Z" });
  for (const order of [
    [duplicate, older, newer],
    [newer, older, duplicate],
    [older, newer, duplicate],
  ]) {
    assert.equal(claimStep(order, none), { kind: "answer", claim: older });
  }
  assert.equal(claimStep([duplicate], none), { kind: "revive", claim: duplicate });
});

test.run();
