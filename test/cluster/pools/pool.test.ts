import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pools, workloads } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, finalizer, label } from "../../../crds/labels.ts";
import { stepsOf } from "../steps-of.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("pool");
let tenancy: Tenancy;
let operator: RunningOperator;
/** The pods of the first pool in the order in which they became ready. */
const readied: string[] = [];

test.before(async () => {
  tenancy = await startTenancy("test-pool");
  operator = tenancy.startOperator();
  // The times in their conditions are whole seconds.
  tenancy.onPodChange(() => {
    for (const pod of tenancy.members("hello"))
      if (isReady(pod) && !readied.includes(pod.metadata.name)) readied.push(pod.metadata.name);
  });
  await tenancy.createWorkload("hello");
  await tenancy.createPool("hello", { workloadRef: "hello", size: 3 });
});
test.after(() => tenancy?.stop());

const untilReady = (name: string, count: number) =>
  tenancy.until(
    `${count} ready in ${name}`,
    () => tenancy.members(name, "ready").length === count && tenancy.members(name).length === count,
  );

test("fills to its size and says so", async () => {
  await untilReady("hello", 3);
  const { status } = await tenancy.untilPool("hello", (pool) => pool.status?.phase === "Ready");
  assert.equal(
    [status?.ready, status?.warming, status?.desired, status?.selector],
    [3, 0, 3, "tenancy.dev/pool=hello"],
  );
  const [pod] = tenancy.members("hello");
  assert.match(pod?.metadata.name ?? "", /^inst-pool-hello-[a-z0-9]{6}$/);
  assert.is(pod?.metadata.labels?.[label.tenant], undefined);
});

test("a claim takes the pod that has been ready longest, for three writes, and the pool is replenished", async () => {
  await untilReady("hello", 3);
  const podPatches = () =>
    operator.requests.filter(({ verb, resource, status }) => verb === "patch" && resource === "pods" && status === 200);
  await tenancy.until("the answers to the labels of the three", () => podPatches().length === 3);
  operator.requests.length = 0;
  const prepared = {
    finalizers: [finalizer.release],
    labels: { [label.tenant]: "alice", [label.workload]: "hello" },
    annotations: { [annotation.requestedAt]: new Date().toISOString() },
  };
  const claim = await tenancy.createClaim("alice", "hello", prepared);
  const active = await tenancy.untilClaim(claim.metadata.name, { phase: "Active" });
  assert.is(active.status?.source, "pool");
  const [pod] = await tenancy.podsOf(active);
  assert.is(pod?.metadata.name, readied[0]);
  assert.is(active.status?.instanceId, pod?.metadata.name);
  assert.equal(
    [
      pod?.metadata.labels?.[label.tenant],
      pod?.metadata.labels?.[label.pool],
      pod?.metadata.labels?.[label.poolStatus],
    ],
    ["alice", undefined, undefined],
  );
  // The pod had started before anybody asked for it.
  assert.equal(stepsOf(active), ["Requested", "Seen", "Bound", "Active"]);
  await untilReady("hello", 3);
  const own = () => operator.requests.filter(({ verb, resource }) => resource === "tenancyclaims" && verb === "patch");
  await tenancy.until("the answer to the write of the claim", () => own().length >= 1);
  assert.is(own().length, 1);
  // One binds the pod; the other is the label of the pod that replaced it in the pool.
  await tenancy.until("the answer to its label", () => podPatches().length >= 2);
  assert.is(podPatches().length, 2);
});

test("after a release the pod goes, it does not return to the pool", async () => {
  const before = tenancy.claims.store.get(`${NAMESPACE}/claim-alice-hello`);
  await tenancy.release("claim-alice-hello");
  assert.ok(before && !tenancy.members("hello").some(({ metadata }) => metadata.name === before.status?.instanceId));
  await untilReady("hello", 3);
});

test("kubectl scale grows and shrinks it", async () => {
  for (const size of [6, 1, 0, 3]) {
    const body = { spec: { replicas: size } };
    await tenancy.client.patch(
      pools,
      { namespace: NAMESPACE, name: "hello" },
      { type: "merge", subresource: "scale", body },
    );
    await untilReady("hello", size);
    await tenancy.untilPool("hello", ({ status }) => status?.ready === size && status.phase === "Ready");
  }
});

test("rolls when the workload changes, and never has fewer ready pods than size - 1", async () => {
  await untilReady("hello", 3);
  const old = new Set(tenancy.members("hello").map(({ metadata }) => metadata.annotations?.[annotation.templateHash]));
  let fewest = Number.POSITIVE_INFINITY;
  const body = { spec: { entrypoint: { env: { VERSION: "2" } } } };
  await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "hello" }, { type: "merge", body });
  await tenancy.until("all pods of the new template", () => {
    fewest = Math.min(fewest, tenancy.members("hello").filter(isReady).length);
    const members = tenancy.members("hello", "ready");
    return (
      members.length === 3 && members.every(({ metadata }) => !old.has(metadata.annotations?.[annotation.templateHash]))
    );
  });
  assert.ok(fewest >= 2, `fewest ready: ${fewest}`);
});

test("two pools of one workload stand side by side, and a claim may take from either", async () => {
  await tenancy.createPool("second", { workloadRef: "hello", size: 2 });
  await untilReady("second", 2);
  await untilReady("hello", 3);
  const names = ["a", "b", "c", "d", "e"];
  await Promise.all(names.map((tenant) => tenancy.createClaim(tenant, "hello")));
  const active = await Promise.all(
    names.map((tenant) => tenancy.untilClaim(`claim-${tenant}-hello`, { phase: "Active" })),
  );
  assert.is(new Set(active.map((claim) => claim.status?.instanceId)).size, 5);
  await Promise.all([untilReady("second", 2), untilReady("hello", 3)]);
});

test("a deleted pool loses its warm pods, claimed ones stay", async () => {
  const claimed = tenancy.claims.store.get(`${NAMESPACE}/claim-a-hello`);
  await tenancy.client.delete(pools, { namespace: NAMESPACE, name: "second" });
  await tenancy.until("no warm pods of second", () => [...tenancy.pods.store.by("pool", "second")].length === 0);
  assert.is(claimed && (await tenancy.podsOf(claimed)).length, 1);
  await untilReady("hello", 3);
});

test("a pool whose workload is missing, or is not ready, says so and recovers by itself", async () => {
  await tenancy.createPool("early", { workloadRef: "later", size: 2 });
  const missing = await tenancy.untilPool("early", ({ status }) => status?.phase === "Error");
  assert.is(missing.status?.reason, "WorkloadNotFound");
  await tenancy.createWorkload("later", { image: { ref: "simulated/hello::bad" } });
  await tenancy.untilPool("early", ({ status }) => status?.reason === "WorkloadNotReady");
  const body = { spec: { image: { ref: "simulated/hello:1" } } };
  await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "later" }, { type: "merge", body });
  await untilReady("early", 2);
  await tenancy.untilPool("early", ({ status }) => status?.phase === "Ready" && status.reason === undefined);
});

test("an image that never pulls: bounded attempts, a condition and an Event, and recovery when the image is mended", async () => {
  await tenancy.createWorkload("missing", { image: { ref: "simulated/missing:1" } });
  await tenancy.createPool("missing", { workloadRef: "missing", size: 4, maxFillConcurrency: 2 });
  const degraded = await tenancy.untilPool("missing", ({ status }) => status?.phase === "Degraded");
  assert.is(degraded.status?.reason, "PodsFail");
  assert.match(degraded.status?.message ?? "", /simulated\/missing:1 cannot be pulled.*one pod at a time/);
  assert.equal(
    degraded.status?.conditions?.map(({ type, status }) => `${type}=${status}`),
    ["Ready=False", "Stalled=True", "Progressing=False", "Degraded=True"],
  );
  await tenancy.until("an Event", async () => {
    return (await tenancy.eventsOf("missing")).some(({ reason }) => reason === "PodsFail");
  });
  const body = { spec: { image: { ref: "simulated/hello:1" } } };
  await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "missing" }, { type: "merge", body });
  const creations = operator.requests.filter(({ verb, resource }) => verb === "create" && resource === "pods").length;
  await untilReady("missing", 4);
  await tenancy.untilPool("missing", ({ status }) => status?.phase === "Ready");
  const after = operator.requests.filter(({ verb, resource }) => verb === "create" && resource === "pods").length;
  // Those of the new image, and at most the one attempt that was due.
  assert.ok(after - creations <= 5, `${after - creations} pods created`);
});

/** As the operator takes it; the label follows. */
function isReady({ status }: Pod): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") ?? false;
}

test("a claim that finds no warm pod says so on its pool", async () => {
  await tenancy.createWorkload("scarce", { image: { ref: "simulated/never-ready:1" } });
  await tenancy.createPool("scarce", { workloadRef: "scarce", size: 1 });
  await tenancy.until("a pod that is not ready", () => tenancy.members("scarce").length === 1);
  const { metadata } = await tenancy.createClaim("late", "scarce");
  const told = await tenancy.until("an Event", async () => {
    return (await tenancy.eventsOf("scarce")).find(({ reason }) => reason === "PoolEmpty");
  });
  assert.is(told.type, "Warning");
  assert.match(told.message ?? "", /no warm pod .*spec\.size or spec\.maxFillConcurrency/);
  await tenancy.release(metadata.name);
});

test.run();
