import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { createApiClient } from "../../../scripts/cluster/kubernetes/api-client.ts";
import { BEHAVIOUR_ANNOTATION } from "../../../scripts/cluster/simulated/behaviour.ts";
import { followHistory } from "../../../scripts/soak/history.ts";
import type { Pod, Claim as SeenClaim } from "../../../scripts/soak/objects.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("pod exclusivity");
const SIZE = 25;
const MAX_FILL = 10;
let tenancy: Tenancy;
let judge: Judge;
/** Ended after a test, also when it failed: the next one would meet operators that lead beside its own. */
const ownOperators: RunningOperator[] = [];

test.before(async () => {
  tenancy = await startTenancy("test-pod-exclusivity");
  judge = await startJudge();
});
test.after(async () => {
  await judge?.stop();
  await tenancy?.stop();
});

test.after.each(async () => {
  await Promise.all(ownOperators.splice(0).map((operator) => operator.stop()));
});

interface Judge {
  /** The most unclaimed pods of a pool that were there at once. */
  mostUnclaimed(pool: string): number;
  /** Everything that was wrong since it was asked last. */
  verdict(): Promise<string[]>;
  stop(): Promise<void>;
}

/**
 * Follows every change of pods and claims in the order that etcd gave them, over watches and by words of its own: what
 * of the product could be wrong is not asked whether it is.
 */
async function startJudge(): Promise<Judge> {
  const problems: string[] = [];
  const api = createApiClient(tenancy.cluster.kubeconfigPath);
  /** By the pod's uid: the uid of the claim that it was first bound to, and that claim's tenant. */
  const boundTo = new Map<string, { claim: string; tenant: string | undefined }>();
  /** Pods that are there, by name. */
  const there = new Map<string, Pod>();
  /** By the pod's name: the uid of the Active claim that names it. */
  const namedBy = new Map<string, string>();
  const most = new Map<string, number>();

  function onPod(pod: Pod, isGone: boolean): void {
    const { name, uid, annotations = {}, labels = {}, deletionTimestamp } = pod.metadata;
    if (isGone) there.delete(name);
    else there.set(name, pod);
    const claim = annotations["tenancy.dev/claim-uid"];
    const tenant = labels["tenancy.dev/tenant"];
    const before = boundTo.get(uid);
    if (claim === undefined) {
      if (before !== undefined) problems.push(`${name} of claim ${before.claim} is nobody's`);
    } else if (before === undefined) boundTo.set(uid, { claim, tenant });
    else if (before.claim !== claim || before.tenant !== tenant)
      problems.push(`${name} of ${before.tenant} (${before.claim}) is ${tenant}'s (${claim})`);
    const pool = labels["tenancy.dev/pool"];
    if (pool === undefined || deletionTimestamp !== undefined) return;
    const unclaimed = [...there.values()].filter(
      ({ metadata }) => metadata.labels?.["tenancy.dev/pool"] === pool && metadata.deletionTimestamp === undefined,
    ).length;
    most.set(pool, Math.max(most.get(pool) ?? 0, unclaimed));
  }

  function onClaim({ metadata, spec, status }: SeenClaim, isGone: boolean): void {
    for (const [pod, uid] of namedBy) if (uid === metadata.uid) namedBy.delete(pod);
    const pod = status?.instanceId;
    if (isGone || status?.phase !== "Active" || pod === undefined) return;
    const other = namedBy.get(pod);
    if (other !== undefined) problems.push(`${pod} is named by two Active claims: ${other} and ${metadata.uid}`);
    namedBy.set(pod, metadata.uid);
    const found = there.get(pod)?.metadata;
    if (found === undefined) problems.push(`${metadata.name} is Active on ${pod}, which is not there`);
    else if (
      found.annotations?.["tenancy.dev/claim-uid"] !== metadata.uid ||
      boundTo.get(found.uid)?.tenant !== spec.tenantId
    )
      problems.push(`${metadata.name} is Active on ${pod}, which is not its own`);
  }

  const history = await followHistory({
    api,
    onChange: (change) =>
      change.kind === "pod"
        ? onPod(change.object, change.type === "DELETED")
        : onClaim(change.object, change.type === "DELETED"),
    onTrouble: (error) => problems.push(String(error)),
  });
  return {
    mostUnclaimed: (pool) => most.get(pool) ?? 0,
    async verdict() {
      await history.upToNow();
      assert.ok(boundTo.size > 0, "it has seen something");
      return problems.splice(0);
    },
    stop: () => history.stop(),
  };
}

async function claimAtOnce(workload: string, tenants: readonly string[]): Promise<Claim[]> {
  await Promise.all(tenants.map((tenant) => tenancy.createClaim(tenant, workload)));
  return Promise.all(tenants.map((tenant) => tenancy.untilClaim(`claim-${tenant}-${workload}`, { phase: "Active" })));
}

const named = (prefix: string, count: number) => Array.from({ length: count }, (_, index) => `${prefix}${index}`);

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

/** Waits until each claim has exactly its pod: a claim is Active before the pod that another overtook is deleted. */
async function untilOneEach(active: Claim[], workload: string): Promise<void> {
  await tenancy.until("every claim has exactly its pod", async () => {
    const bound = await boundPods(workload);
    return active.every((claim) => {
      const now = tenancy.claims.store.get(`${NAMESPACE}/${claim.metadata.name}`);
      const names = bound(claim);
      return now?.status?.phase === "Active" && names.length === 1 && names[0] === now.status.instanceId;
    });
  });
}

async function fill(pool: string): Promise<void> {
  await tenancy.createWorkload(pool);
  await tenancy.createPool(pool, { workloadRef: pool, size: SIZE, maxFillConcurrency: MAX_FILL });
  await tenancy.until(`${pool} full`, () => tenancy.members(pool, "ready").length === SIZE);
}

test("75 tenants that claim at once from a pool of 25, while others release, get pods of their own, and the pool is never too large and full again in the end", async () => {
  ownOperators.push(tenancy.startOperator());
  await fill("one");
  const leaving = await claimAtOnce("one", named("leaving", 15));
  const [active] = await Promise.all([
    claimAtOnce("one", named("t", 60)),
    Promise.all(leaving.map(({ metadata }) => tenancy.release(metadata.name))),
    // Their tenants come back while their pods go.
    claimAtOnce("one", named("late", 15)),
  ]);
  await tenancy.until(
    "one full again",
    () => tenancy.members("one", "ready").length === SIZE && tenancy.members("one").length === SIZE,
  );
  await untilOneEach(active, "one");
  const podOf = ({ metadata }: Claim) => tenancy.claims.store.get(`${NAMESPACE}/${metadata.name}`)?.status?.instanceId;
  for (const claim of active) assert.is(podOf(claim), claim.status?.instanceId, "it keeps its pod");
  assert.equal(await judge.verdict(), []);
  const mostUnclaimed = judge.mostUnclaimed("one");
  assert.ok(mostUnclaimed <= SIZE + MAX_FILL, `${mostUnclaimed} unclaimed`);
  const fromPool = active.filter((claim) => claim.status?.source === "pool").length;
  console.log(`note: ${fromPool} from the pool, ${active.length - fromPool} cold, at most ${mostUnclaimed} unclaimed`);
});

test("two operators that both believe they lead never give a pod twice", async () => {
  // Each with a lease of its own: neither knows of the other.
  for (const identity of ["left", "right"])
    ownOperators.push(tenancy.startOperator({ identity, leaseName: `lease-${identity}` }));
  await fill("two");
  const [leaving, active] = await Promise.all([
    claimAtOnce("two", named("leaving", 8)),
    claimAtOnce("two", named("t", 42)),
  ]);
  await Promise.all(leaving.map(({ metadata }) => tenancy.release(metadata.name)));
  await claimAtOnce("two", named("leaving", 8));
  await untilOneEach(active, "two");
  assert.equal(await judge.verdict(), []);
});

/** Pods of it become ready when the test says so. */
const image = { ref: "simulated/never-ready:1" };

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
  tenancy.startOperator();
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

test("a tenant's pod whose labels somebody edits back stays the tenant's, although a claim waits for a pod", async () => {
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
  await tenancy.until("it is alice's again, or bob's", async () => {
    const { metadata } = await tenancy.client.get(pods, { namespace: NAMESPACE, name: warm });
    return bobs.has(warm) || (metadata.labels?.[label.tenant] === "alice" && metadata.labels[label.pool] === undefined);
  });
  stop();
  assert.not(bobs.has(warm));
  await tenancy.untilClaim(claim, { phase: "Active", instanceId: warm });
});

test.run();
