import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims, pools, workloads } from "../../../crds/kinds.ts";
import { label } from "../../../crds/labels.ts";
import { poolInstanceName } from "../../../crds/names.ts";
import { createClaimController } from "../../../operator/claim/controller.ts";
import { startPod } from "../../../operator/claim/start-pod.ts";
import { renderPod } from "../../../operator/pod/render-pod.ts";
import { createPromisedPods } from "../../../operator/pool/promised-pods.ts";
import { manualClock } from "../manual-clock.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("claims that find no warm pod, and pods of the pool that are starting");

const ready = { podIP: "10.0.0.1", conditions: [{ type: "Ready", status: "True" as const }] };
const unschedulable = {
  conditions: [{ type: "PodScheduled", status: "False" as const, reason: "Unschedulable", message: "no room" }],
};

/** A pool with pods that are starting. */
function starting(...names: string[]) {
  const clock = manualClock();
  const { api, context } = testOperator({ promisedPods: createPromisedPods(clock) });
  const workload = api.add(workloads, {
    metadata: { name: "w", uid: "w-uid", generation: 1 },
    spec: { image: { ref: "i:1" }, health: { httpGet: { path: "/", port: 80 } } },
    status: { phase: "Ready", observedGeneration: 1 },
  });
  api.add(pools, { metadata: { name: "p" }, spec: { workloadRef: "w", size: 9 } });
  const nameOf = (suffix: string) => poolInstanceName({ workload: "w", suffix });
  const setStatus = (suffix: string, status: object) => {
    const options = { name: nameOf(suffix), labels: { [label.pool]: "p" }, annotations: {} };
    const pod = renderPod(workload, options, context.config);
    api.add(pods, { ...pod, metadata: { ...pod.metadata, uid: suffix }, status } as typeof pod);
  };
  for (const name of names) setStatus(name, {});
  const { watches } = createClaimController(context);
  const podWatch = watches.find(({ informer }) => informer === context.informers.pods);
  return {
    setStatus,
    /** Which claims run after a change of the pod. */
    changed(suffix: string): string[] {
      const object = context.informers.pods.store.get({ namespace: "n", name: nameOf(suffix) });
      if (object === undefined) throw new Error(`Cannot find pod ${suffix}`);
      return [...(podWatch?.map({ type: "modified", object, previous: object }) ?? [])];
    },
    promisedPods: context.promisedPods,
    pass: (ms: number) => clock.pass(ms),
    /** Runs the claim, and says what it has then. */
    async run(name: string): Promise<string> {
      const claim: Claim = {
        metadata: { name, uid: `uid-${name}` },
        spec: { tenantId: name, workloadRef: "w" },
        status: { phase: "Pending" },
      };
      const result = await startPod(api.add(claims, claim), context);
      const [pod] = context.informers.pods.store.by("claimUid", `uid-${name}`);
      if (pod !== undefined) return pod.metadata.name;
      return `waits ${result?.requeueAfterMs}`;
    },
  };
}

test("a claim waits for a pod that is starting, and one more than there are of these starts a pod of its own", async () => {
  const { run } = starting("a", "b");
  assert.is(await run("t1"), "waits 10000");
  assert.is(await run("t2"), "waits 10000");
  assert.match(await run("t3"), /^inst-t3-w-/);
  assert.is(await run("t1"), "waits 10000");
});

test("the pod is its claim's when it becomes ready, also where another claim comes first", async () => {
  const { run, setStatus } = starting("a");
  await run("t1");
  setStatus("a", ready);
  assert.match(await run("t2"), /^inst-t2-w-/);
  assert.is(await run("t1"), poolInstanceName({ workload: "w", suffix: "a" }));
});

test("a claim takes a pod that is ready before its own, which is promised to the next", async () => {
  const { run, setStatus } = starting("a", "b");
  await run("t1");
  setStatus("b", ready);
  assert.is(await run("t1"), poolInstanceName({ workload: "w", suffix: "b" }));
  assert.is(await run("t2"), "waits 10000");
});

test("a claim waits for another pod once its own cannot become ready, for ten seconds in all", async () => {
  const { run, promisedPods, pass } = starting("a", "b");
  await run("t1");
  await pass(4000);
  assert.is(promisedPods.claimOf("a"), "uid-t1");
  promisedPods.forgetPod("a");
  assert.is(await run("t2"), "waits 10000");
  assert.is(await run("t1"), "waits 6000");
  await pass(6000);
  assert.match(await run("t1"), /^inst-t1-w-/);
});

test("a pod that no node has room for is promised to nobody", async () => {
  const { run, setStatus } = starting();
  setStatus("a", unschedulable);
  assert.match(await run("t1"), /^inst-t1-w-/);
});

test("a claim stops waiting for a pod that turns out to find no node", async () => {
  const { run, setStatus, changed } = starting("a");
  await run("t1");
  setStatus("a", unschedulable);
  assert.equal(changed("a"), ["n/t1"]);
  assert.match(await run("t1"), /^inst-t1-w-/);
});

test("a pod that its claim has not taken after ten seconds is free for others", async () => {
  const { run, setStatus, pass } = starting("a");
  await run("t1");
  setStatus("a", ready);
  await pass(10_000);
  assert.is(await run("t2"), poolInstanceName({ workload: "w", suffix: "a" }));
});

test("what a claim waited for is free for others when the claim is gone", async () => {
  const { run, promisedPods } = starting("a");
  await run("t1");
  promisedPods.forgetClaim("uid-t1");
  assert.is(await run("t2"), "waits 10000");
});

test.run();
