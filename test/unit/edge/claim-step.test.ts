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

test.run();
