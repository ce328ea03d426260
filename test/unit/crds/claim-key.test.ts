// @runtimes bun node
import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { canonicalClaim } from "../../../crds/claims/claim-key.ts";

function claim(uid: string, created: number, more: { status?: ClaimStatus; isGoing?: boolean } = {}): Claim {
  return {
    metadata: {
      name: `claim-${uid}`,
      uid,
      creationTimestamp: `2026-01-0${created}T00:00:00Z`,
      ...(more.isGoing && { deletionTimestamp: "2026-02-01T00:00:00Z" }),
    },
    spec: { tenantId: "t", workloadRef: "w" },
    ...(more.status && { status: more.status }),
  };
}

test("canonicalClaim: one that is released, then the Active one, then the oldest, then by uid; a duplicate comes last", () => {
  const inOrder = [
    claim("f", 6, { isGoing: true, status: { phase: "Releasing" } }),
    claim("e", 5, { status: { phase: "Active" } }),
    claim("c", 3, { status: { phase: "Pending" } }),
    claim("b", 4),
    claim("d", 4, { status: { phase: "Error", reason: "StartTimeout" } }),
    claim("a", 1, { status: { phase: "Error", reason: "Duplicate" } }),
  ];
  for (let first = 0; first < inOrder.length; first += 1) {
    const left = inOrder.slice(first);
    assert.is(canonicalClaim(left), inOrder[first]);
    assert.is(canonicalClaim([...left].reverse()), inOrder[first]);
  }
  assert.is(canonicalClaim([]), undefined);
});

test("canonicalClaim: one that only the finalizer of somebody else holds does not count, released or never taken up", () => {
  const next = claim("n", 6);
  for (const status of [undefined, { phase: "Released" } as const]) {
    const left = claim("l", 1, { isGoing: true, ...(status && { status }) });
    left.metadata.finalizers = ["example.com/audit"];
    assert.is(canonicalClaim([left, next]), next);
  }
  const saving = claim("s", 1, { isGoing: true, status: { phase: "Releasing" } });
  assert.is(canonicalClaim([saving, next]), saving);
});

test.run();
