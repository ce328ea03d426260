import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { claims } from "../../../crds/kinds.ts";
import { readQuotas } from "../../../crds/quotas/tenant-quotas.ts";
import type { Workload } from "../../../crds/workload.ts";
import { leaveRoom, takeRoom } from "../../../operator/claim/tenant-room.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("the room of a tenant");
const workload: Workload = { metadata: { name: "app" }, spec: { image: { ref: "a" } } };

function claimOf(workloadRef: string, status: ClaimStatus): Claim {
  const name = `claim-a-${workloadRef}`;
  return {
    metadata: { name, namespace: "n", uid: `uid-${workloadRef}`, resourceVersion: "1" },
    spec: { tenantId: "a", workloadRef, resume: false },
    status,
  };
}

test("a pod that was given up counts until its containers have ended", () => {
  let now = 1_000_000;
  const { api, context } = testOperator({ serverNow: () => now });
  const quotas = readQuotas({ data: { "quotas.yaml": "tenants: { a: { activeClaims: 1 } }" } });
  if (typeof quotas === "string") throw new Error(quotas);
  Object.assign(context.informers.quotas, { current: () => quotas });
  const destroyed = claimOf("one", { phase: "Pending", attempt: "1" });
  const other = claimOf("two", { phase: "Pending" });
  for (const claim of [destroyed, other]) api.add(claims, claim);
  assert.is(takeRoom(destroyed, workload, context), undefined);
  assert.match(JSON.stringify(takeRoom(other, workload, context)), "TenantQuotaExceeded");
  leaveRoom(destroyed, context);
  // Neither the claim itself nor another one gets the room at once, and both wait for it.
  for (const claim of [destroyed, other]) assert.equal(takeRoom(claim, workload, context), { requeueAfterMs: 10_000 });
  now += 9000;
  assert.equal(takeRoom(other, workload, context), { requeueAfterMs: 1000 });
  now += 1000;
  assert.is(takeRoom(other, workload, context), undefined);
  assert.match(JSON.stringify(takeRoom(destroyed, workload, context)), "TenantQuotaExceeded");
  assert.is(context.room.ending.size, 0);
});

test("a claim that is gone takes no room", () => {
  const { context } = testOperator();
  const quotas = readQuotas({ data: { "quotas.yaml": "tenants: { a: { activeClaims: 1 } }" } });
  if (typeof quotas === "string") throw new Error(quotas);
  Object.assign(context.informers.quotas, { current: () => quotas });
  assert.equal(takeRoom(claimOf("gone", { phase: "Pending" }), workload, context), { requeueAfterMs: 1000 });
  assert.is(context.room.given.size, 0);
});

test.run();
