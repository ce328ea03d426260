import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { BEHAVIOUR_ANNOTATION } from "../../../scripts/cluster/simulated/behaviour.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("a pod that was ever bound to a tenant is never given to another");
/** Pods of it become ready when the test says so. */
const image = { ref: "simulated/never-ready:1" };
let tenancy: Tenancy;

test.before(async () => {
  tenancy = await startTenancy("test-overtaken-claim");
  tenancy.startOperator();
});
test.after(() => tenancy?.stop());

async function patchPod(name: string, metadata: object): Promise<void> {
  await tenancy.client.patch(pods, { namespace: NAMESPACE, name }, { type: "merge", body: { metadata } });
}

async function makeReady(name: string): Promise<void> {
  await patchPod(name, { annotations: { [BEHAVIOUR_ANNOTATION]: "normal" } });
}

/** A pool with one pod that is still warming, and a claim whose cold pod is starting too. */
async function race(workload: string, tenant: string): Promise<{ warm: string; cold: string; claim: string }> {
  await tenancy.createWorkload(workload, { image });
  await tenancy.createPool(workload, { workloadRef: workload, size: 1 });
  const [warm] = await tenancy.until(
    "a warming pod",
    () => tenancy.members(workload).length > 0 && tenancy.members(workload),
  );
  const claim = await tenancy.createClaim(tenant, workload);
  const cold = await tenancy.until("a cold pod that runs", () =>
    [...tenancy.pods.store.by("claimUid", claim.metadata.uid ?? "")].find(({ status }) => status?.phase === "Running"),
  );
  return { warm: warm?.metadata.name ?? "", cold: cold.metadata.name, claim: claim.metadata.name };
}

test("a cold pod whose claim a warm one overtook is deleted, and never a pool's", async () => {
  const { warm, cold, claim } = await race("overtaken", "alice");
  const pooled = new Set<string>();
  const stop = tenancy.onPodChange(() => {
    for (const { metadata } of tenancy.pods.store.values())
      if (metadata.labels?.[label.pool] !== undefined) pooled.add(metadata.name);
  });
  await makeReady(warm);
  const { status } = await tenancy.untilClaim(claim, { phase: "Active" });
  assert.is(status?.instanceId, warm);
  assert.is(status?.source, "pool");
  await tenancy.until("the cold pod in the pool, or gone", () => {
    return pooled.has(cold) || tenancy.pods.store.get(`${NAMESPACE}/${cold}`) === undefined;
  });
  stop();
  assert.ok(pooled.has(warm));
  assert.not(pooled.has(cold));
});

test("a tenant's pod whose labels somebody edits back goes, although a claim waits for a pod", async () => {
  const { warm, claim } = await race("edited", "alice");
  await makeReady(warm);
  await tenancy.untilClaim(claim, { phase: "Active", instanceId: warm });
  const waiting = await tenancy.createClaim("bob", "edited");
  await tenancy.until("bob's cold pod", async () => (await tenancy.podsOf(waiting)).length > 0);
  const bobs = new Set<string>();
  const stop = tenancy.onPodChange(() => {
    for (const { metadata } of tenancy.pods.store.values())
      if (metadata.labels?.[label.tenant] === "bob") bobs.add(metadata.name);
  });
  await patchPod(warm, {
    labels: { [label.tenant]: null, [label.pool]: "edited", [label.poolStatus]: "ready" },
    annotations: { [annotation.claimUid]: null, [annotation.claim]: null },
  });
  await tenancy.until("it goes, or is bob's", () => {
    return bobs.has(warm) || tenancy.pods.store.get(`${NAMESPACE}/${warm}`) === undefined;
  });
  stop();
  assert.not(bobs.has(warm));
});

test.run();
