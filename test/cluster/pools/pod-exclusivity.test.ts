// @limit 600
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("pod exclusivity");
const SIZE = 100;
const MAX_FILL = 10;
let tenancy: Tenancy;

test.before(async () => {
  tenancy = await startTenancy("test-pod-exclusivity");
});
test.after(() => tenancy?.stop());

/** Watches from outside: how many unclaimed pods there are at most, and whether a pod is ever a second claim's, however shortly. */
function watchFromOutside(pool: string): { mostUnclaimed: number; handedOn(): string[]; stop(): void } {
  const claimsOf = new Map<string, Set<string>>();
  const seen = { mostUnclaimed: 0, handedOn, stop: tenancy.onPodChange(look) };
  function note(pod: string, claimUid: string | undefined): void {
    if (claimUid !== undefined) claimsOf.set(pod, (claimsOf.get(pod) ?? new Set()).add(claimUid));
  }
  function look(): void {
    let unclaimed = 0;
    for (const pod of tenancy.pods.store.by("pool", pool))
      if (pod.metadata.deletionTimestamp === undefined) unclaimed += 1;
    seen.mostUnclaimed = Math.max(seen.mostUnclaimed, unclaimed);
    for (const { metadata, status } of tenancy.claims.store.values()) {
      if (status?.instanceId !== undefined) note(status.instanceId, metadata.uid);
    }
    for (const { metadata } of tenancy.pods.store.values())
      note(metadata.name, metadata.annotations?.[annotation.claimUid]);
  }
  function handedOn(): string[] {
    return [...claimsOf].filter(([, claimUids]) => claimUids.size > 1).map(([pod]) => pod);
  }
  return seen;
}

async function claimAtOnce(workload: string, count: number): Promise<Claim[]> {
  const tenants = Array.from({ length: count }, (_, index) => `t${index}`);
  await Promise.all(tenants.map((tenant) => tenancy.createClaim(tenant, workload)));
  return Promise.all(tenants.map((tenant) => tenancy.untilClaim(`claim-${tenant}-${workload}`, { phase: "Active" })));
}

/** Tells the names of the pods that are bound to a claim of the workload and stay. */
async function boundPods(workload: string): Promise<(claim: Claim) => string[]> {
  const labelSelector = `${label.workload}=${workload}`;
  const { items } = await tenancy.client.list(pods, { namespace: NAMESPACE, labelSelector });
  const bound = new Map<string | undefined, string[]>();
  for (const { metadata } of items) {
    if (metadata.deletionTimestamp !== undefined) continue;
    const claimUid = metadata.annotations?.[annotation.claimUid];
    bound.set(claimUid, [...(bound.get(claimUid) ?? []), metadata.name]);
  }
  return ({ metadata }) => bound.get(metadata.uid) ?? [];
}

async function assertOneEach(active: Claim[], workload: string): Promise<void> {
  assert.is(new Set(active.map((claim) => claim.status?.instanceId)).size, active.length);
  const bound = await boundPods(workload);
  for (const claim of active) assert.equal(bound(claim), [claim.status?.instanceId]);
}

async function fill(pool: string): Promise<void> {
  await tenancy.createWorkload(pool);
  await tenancy.createPool(pool, { workloadRef: pool, size: SIZE, maxFillConcurrency: MAX_FILL });
  await tenancy.until(`${pool} full`, () => tenancy.members(pool, "ready").length === SIZE);
}

test("500 tenants that claim at once from a pool of 100 get 500 pods, and the pool is never too large and full again in the end", async () => {
  const operator = tenancy.startOperator();
  await fill("one");
  const seen = watchFromOutside("one");
  const active = await claimAtOnce("one", 500);
  await tenancy.until(
    "one full again",
    () => tenancy.members("one", "ready").length === SIZE && tenancy.members("one").length === SIZE,
  );
  seen.stop();
  await assertOneEach(active, "one");
  assert.equal(seen.handedOn(), []);
  assert.ok(seen.mostUnclaimed <= SIZE + MAX_FILL, `${seen.mostUnclaimed} unclaimed`);
  const fromPool = active.filter((claim) => claim.status?.source === "pool").length;
  assert.ok(fromPool >= SIZE);
  console.log(
    `note: ${fromPool} from the pool, ${active.length - fromPool} cold, at most ${seen.mostUnclaimed} unclaimed`,
  );
  await operator.stop();
});

test("two operators that both believe they lead never give a pod twice", async () => {
  // Each with a lease of its own: neither knows of the other.
  const both = ["left", "right"].map((identity) => tenancy.startOperator({ identity, leaseName: `lease-${identity}` }));
  await fill("two");
  const seen = watchFromOutside("two");
  const active = await claimAtOnce("two", 200);
  await tenancy.until("every claim has exactly its pod", async () => {
    const bound = await boundPods("two");
    return active.every((claim) => {
      const now = tenancy.claims.store.get(`${NAMESPACE}/${claim.metadata.name}`);
      const names = bound(claim);
      return now?.status?.phase === "Active" && names.length === 1 && names[0] === now.status.instanceId;
    });
  });
  seen.stop();
  assert.equal(seen.handedOn(), []);
  const now = active.map(
    (claim) => tenancy.claims.store.get(`${NAMESPACE}/${claim.metadata.name}`)?.status?.instanceId,
  );
  assert.is(new Set(now).size, active.length);
  for (const operator of both) await operator.stop();
});

test.run();
