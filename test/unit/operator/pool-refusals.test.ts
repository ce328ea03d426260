import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import { pods, resourceQuotas } from "../../../crds/client/built-in-resources.ts";
import { pools, workloads } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import type { Pool } from "../../../crds/pool.ts";
import { createPoolController } from "../../../operator/pool/controller.ts";
import { createPoolRefusals } from "../../../operator/pool/pool-refusals.ts";
import { writePoolStatus } from "../../../operator/pool/write-pool-status.ts";
import { manualClock } from "../manual-clock.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("a pool whose pods are refused");

/** A pool of four in a namespace with a quota of so many pods, as the API server keeps it. */
function crowded({ room, status }: { room: number; status?: Pool["status"] }) {
  const clock = manualClock();
  const asked: string[] = [];
  const poolRefusals = createPoolRefusals({ onChange: (pool) => asked.push(pool), clock });
  const { api, context, events } = testOperator({ poolRefusals });
  let limit = room;
  let refuse = (name: string) =>
    `pods "${name}" is forbidden: exceeded quota: q, requested: pods=1, used: pods=${limit}, limited: pods=${limit}`;
  api.onEvery(
    "create",
    ({ name }) => {
      if (api.all(pods).length < limit) return undefined;
      throw new ApiError(refuse(name), { status: 403, reason: "Forbidden" });
    },
    pods,
  );
  const quota = (hard: number) => ({
    metadata: { name: "q" },
    status: { hard: { pods: `${hard}` }, used: { pods: `${api.all(pods).length}` } },
  });
  api.add(resourceQuotas, quota(limit));
  api.add(workloads, {
    metadata: { name: "w", generation: 1 },
    spec: { image: { ref: "i:1" } },
    status: { phase: "Ready", observedGeneration: 1 },
  });
  const spec = { workloadRef: "w", size: 4, maxFillConcurrency: 4 };
  api.add(pools, { metadata: { name: "p", generation: 1 }, spec, ...(status && { status }) });
  const controller = createPoolController(context);
  for (const { informer, map } of controller.watches) informer.subscribe((change) => void map(change));
  return {
    ...{ clock, api, context, asked },
    reconcile: () => controller.reconcile("n/p", { signal: new AbortController().signal }),
    pass: (ms: number) => clock.set(clock.now() + ms),
    tries: () => api.calls.filter(({ verb, kind }) => verb === "create" && kind === "pods").length,
    members: () => api.all(pods).length,
    setLimit(hard: number) {
      // What was used so far came before.
      api.add(resourceQuotas, quota(limit));
      limit = hard;
      api.add(resourceQuotas, quota(hard));
    },
    setRefusal(message: string) {
      refuse = () => message;
    },
    /** A pod of somebody else in the namespace. */
    addOther: (name: string) => api.add(pods, { metadata: { name }, spec: { containers: [] } }),
    ready() {
      for (const pod of api.all<Pod>(pods))
        api.add(pods, { ...pod, status: { podIP: "10.0.0.1", conditions: [{ type: "Ready", status: "True" }] } });
    },
    async status() {
      await writePoolStatus("n/p", context);
      return api.read(pools, "p").status;
    },
    events: () => events.map(({ reason, message }) => `${reason}: ${message}`),
  };
}

test("says that the quota is why, without waiting for a second refusal, and not spec.health", async () => {
  const { reconcile, status, events, context } = crowded({ room: 0 });
  await reconcile();
  const { phase, reason, message } = (await status()) ?? {};
  assert.equal([phase, reason], ["Degraded", "QuotaExceeded"]);
  assert.match(message ?? "", /^the namespace has no room for another pod: .*\(exceeded quota: q, requested: pods=1/);
  assert.equal(events(), [`QuotaExceeded: ${message}`]);
  assert.is(context.poolFailures.get("p"), undefined);
});

test("fills in one run after the quota was raised, and says so at once", async () => {
  const { reconcile, setLimit, asked, tries, members, ready, status } = crowded({ room: 0 });
  await reconcile();
  asked.length = 0;
  setLimit(10);
  assert.equal(asked, ["p"], "the change of the quota starts a run");
  const before = tries();
  await reconcile();
  assert.equal([members(), tries() - before], [4, 4]);
  const filling = (await status())?.conditions?.map(({ type, status }) => `${type}=${status}`);
  assert.equal(filling, ["Ready=False", "Reconciling=True", "Progressing=True", "Degraded=False"]);
  ready();
  const { phase, reason } = (await status()) ?? {};
  assert.equal([phase, reason], ["Ready", undefined]);
});

test("tries one pod at a time, and at least every 30 s", async () => {
  const { reconcile, pass, tries } = crowded({ room: 0 });
  await reconcile();
  assert.is(tries(), 4);
  for (let count = 1; count <= 20; count += 1) {
    const { requeueAfterMs = Number.POSITIVE_INFINITY } = (await reconcile()) ?? {};
    assert.ok(requeueAfterMs <= 30_000, `${requeueAfterMs}`);
    assert.is(tries(), 3 + count, "none before it is time");
    pass(requeueAfterMs);
    await reconcile();
    assert.is(tries(), 4 + count);
  }
});

test("tries again when a pod of the namespace is gone, but not twice in a second", async () => {
  const { reconcile, addOther, api, asked, pass, tries, members } = crowded({ room: 2 });
  for (const name of ["a", "b"]) addOther(name);
  await reconcile();
  pass(1000);
  for (let count = 0; count < 5; count += 1) {
    const { requeueAfterMs = 0 } = (await reconcile()) ?? {};
    pass(requeueAfterMs);
    await reconcile();
  }
  const before = tries();
  asked.length = 0;
  api.remove(pods, "a");
  assert.equal(asked, ["p"]);
  assert.ok(((await reconcile())?.requeueAfterMs ?? 0) <= 1000);
  assert.is(tries(), before, "it has just tried");
  pass(1000);
  await reconcile();
  assert.is(members(), 2, "one in the place of the pod that is gone");
});

test("one Event, although each pod that ends lets the pool try and be refused again", async () => {
  const { reconcile, setLimit, status, events, members } = crowded({ room: 0 });
  await reconcile();
  await status();
  for (let room = 1; room <= 3; room += 1) {
    setLimit(room);
    await reconcile();
    assert.is(members(), room);
    await status();
  }
  assert.is(events().length, 1);
});

test("a policy that refuses the pod is neither a quota nor a failing pod", async () => {
  const { reconcile, setRefusal, status, context } = crowded({ room: 0 });
  setRefusal("admission webhook denied the request: image is not signed");
  await reconcile();
  const { phase, reason, message } = (await status()) ?? {};
  assert.equal([phase, reason], ["Degraded", "PodRefused"]);
  assert.match(message ?? "", /^the cluster refuses the pod: .*image is not signed; one pod is tried again/);
  assert.is(context.poolFailures.get("p"), undefined);
});

test("the next leader goes on from the status, tries at once, and writes no second Event", async () => {
  const first = crowded({ room: 0 });
  await first.reconcile();
  const status = await first.status();
  const { reconcile, tries, events, ...next } = crowded({ room: 0, ...(status && { status }) });
  assert.equal((await next.status())?.conditions, status?.conditions);
  await reconcile();
  assert.is(tries(), 1);
  assert.equal((await next.status())?.conditions, status?.conditions);
  assert.equal(events(), []);
});

test("an edit of the pool or its workload forgets the refusal", async () => {
  const { reconcile, api, context } = crowded({ room: 0 });
  await reconcile();
  api.add(pools, { ...api.read(pools, "p"), spec: { workloadRef: "w", size: 3 } });
  assert.is(context.poolRefusals.get("p"), undefined);
  await reconcile();
  assert.is.not(context.poolRefusals.get("p"), undefined);
  const workload = api.read(workloads, "w");
  const spec = { ...workload.spec, image: { ref: "i:2" } };
  api.add(workloads, { ...workload, spec, status: { phase: "Ready", observedGeneration: 2 } });
  assert.is(context.poolRefusals.get("p"), undefined);
});

test("a pool that lacks no pod is refused no longer", async () => {
  const { reconcile, api, asked, context } = crowded({ room: 3 });
  await reconcile();
  assert.is.not(context.poolRefusals.get("p"), undefined);
  const [pod] = api.all<Pod>(pods);
  assert.is(pod?.metadata.labels?.[label.pool], "p");
  api.add(pods, { ...(pod as Pod), metadata: { ...(pod as Pod).metadata, name: "inst-pool-w-bbbbbb", uid: "b" } });
  asked.length = 0;
  await reconcile();
  assert.is(context.poolRefusals.get("p"), undefined);
  assert.equal(asked, ["p"], "its status is written");
});

test.run();
