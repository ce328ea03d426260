import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { pools } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { label, WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { reconcileMember } from "../../../operator/pool/reconcile-member.ts";
import { createRefillPause } from "../../../operator/pool/refill-pause.ts";
import { createSeenTimes } from "../../../operator/pool/seen-times.ts";
import { manualClock } from "../manual-clock.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("reconcileMember");

const readyPod: Pod = {
  metadata: {
    ...{ name: "inst-pool-w-abcdef", namespace: "n", uid: "pod-uid" },
    labels: { [label.managed]: "true", [label.workload]: "w", [label.pool]: "p", [label.poolStatus]: "warming" },
  },
  spec: { containers: [] },
  status: { podIP: "10.0.0.1", conditions: [{ type: "Ready", status: "True" }] },
};

/** A pod whose program runs for ten minutes, and which became unready so many seconds ago. */
function unreadyPod({ unreadyForMs = 1000, status = "warming", isNodeSilent = false } = {}): Pod {
  const ago = (ms: number) => new Date(Date.now() - ms).toISOString();
  const reason = isNodeSilent ? undefined : "ContainersNotReady";
  return {
    ...readyPod,
    metadata: { ...readyPod.metadata, labels: { ...readyPod.metadata.labels, [label.poolStatus]: status } },
    spec: { ...readyPod.spec, nodeName: "node-1" },
    status: {
      ...{ phase: "Running", podIP: "10.0.0.1" },
      conditions: [
        { type: "PodScheduled", status: "True", lastTransitionTime: ago(602_000) },
        { type: "ContainersReady", status: isNodeSilent ? "True" : "False" },
        { type: "Ready", status: "False", lastTransitionTime: ago(unreadyForMs), ...(reason && { reason }) },
      ],
      containerStatuses: [
        {
          ...{ name: WORKLOAD_CONTAINER, image: "i:1", ready: false, restartCount: 0 },
          state: { running: { startedAt: ago(600_000) } },
        },
      ],
    },
  };
}

/** The same pod while its program had not been ready yet. */
function startingPod(): Pod {
  return unreadyPod({ unreadyForMs: 601_000 });
}

/** A pool with so many ready pods, and what is written to one of them. */
function poolOf(ready: number, pod = readyPod) {
  const clock = manualClock();
  const refillPause = createRefillPause(clock);
  const { api, context, events } = testOperator({ refillPause, seenTimes: createSeenTimes(clock) });
  api.add(pools, { metadata: { name: "p" }, spec: { workloadRef: "w", size: ready } });
  for (let count = 1; count < ready; count += 1)
    api.add(pods, { ...readyPod, metadata: { ...readyPod.metadata, name: `inst-pool-w-${count}`, uid: `${count}` } });
  const member = api.add(pods, pod);
  return {
    ...{
      refillPause,
      reconcile: (now = member) => reconcileMember(now, "p", context),
      pass: (ms: number) => clock.set(clock.now() + ms),
    },
    beside: (other: Pod) => api.add(pods, other),
    reads: () => api.verbs().filter((verb) => verb === "list").length,
    events: () => events.map(({ reason, message }) => `${reason}: ${message}`),
    label: () => api.read(pods, pod.metadata.name).metadata.labels?.[label.poolStatus],
    writes: () => api.verbs().filter((verb) => verb !== "list"),
    failures: () => context.poolFailures.get("p")?.count ?? 0,
  };
}

test("a pod that became ready is labelled at once, also where a claim comes now and then", async () => {
  const { reconcile, refillPause, label, writes } = poolOf(3);
  refillPause.taken("w");
  assert.is(await reconcile(), undefined);
  assert.equal([label(), writes()], ["ready", ["patch"]]);
});

test("a pod that a stream of claims reaches in seconds is not labelled while the stream lasts", async () => {
  const { reconcile, refillPause, label, writes, pass } = poolOf(300);
  for (let count = 0; count < 100; count++) {
    refillPause.taken("w");
    pass(20);
  }
  assert.ok(((await reconcile())?.requeueAfterMs ?? 0) > 0);
  assert.equal(writes(), []);
  pass(1000);
  assert.is(await reconcile(), undefined);
  assert.equal([label(), writes()], ["ready", ["patch"]]);
});

for (const status of ["ready", "warming"]) {
  test(`a pod labelled ${status} that is unready for a moment stays, and counts as no failure`, async () => {
    const pod = unreadyPod({ status });
    const { reconcile, label, writes, failures, pass } = poolOf(1, pod);
    assert.is((await reconcile())?.requeueAfterMs, 30_000);
    pass(25_000);
    assert.is((await reconcile({ ...unreadyPod(), status: pod.status ?? {} }))?.requeueAfterMs, 5_000);
    assert.equal([label(), writes(), failures()], ["warming", status === "ready" ? ["patch"] : [], 0]);
  });
}

test("a pod that is unready for half a minute goes, which is no failure of a start", async () => {
  const pod = unreadyPod();
  const { reconcile, writes, failures, events, pass } = poolOf(1, pod);
  await reconcile();
  pass(30_000);
  await reconcile();
  assert.equal([writes(), failures()], [["delete"], 0]);
  assert.match(
    events().join(),
    /^PodLost: pod "inst-pool-w-abcdef" was ready and is not ready any more \(.*\); it is replaced$/,
  );
});

test("a new leader lets a pod be unready for half a minute of its own, whatever its predecessor saw", async () => {
  const { reconcile, writes } = poolOf(1, unreadyPod({ unreadyForMs: 120_000 }));
  assert.is((await reconcile())?.requeueAfterMs, 30_000);
  assert.equal(writes(), []);
});

test("the half minute starts over when the pod was ready in between", async () => {
  const { reconcile, writes, pass } = poolOf(1, unreadyPod({ unreadyForMs: 9000 }));
  await reconcile();
  pass(29_000);
  assert.is((await reconcile(unreadyPod({ unreadyForMs: 2000 })))?.requeueAfterMs, 30_000);
  assert.equal(writes(), []);
});

test("pods of a lost node are replaced with one Event, which names the node, and no search for a reason", async () => {
  const pod = unreadyPod({ isNodeSilent: true });
  const { reconcile, beside, reads, writes, failures, events, pass } = poolOf(1, pod);
  const other = beside({ ...pod, metadata: { ...pod.metadata, name: "inst-pool-w-bbbbbb", uid: "b" } });
  for (const each of [undefined, other]) await reconcile(each);
  pass(30_000);
  for (const each of [undefined, other]) await reconcile(each);
  assert.equal([writes(), failures(), reads()], [["delete", "delete"], 0, 0]);
  assert.equal(events(), ['PodLost: node "node-1" does not answer for pod "inst-pool-w-abcdef"; it is replaced']);
});

test("a pod that starts on a lost node is none that fails to start", async () => {
  const { reconcile, beside, failures, events, pass } = poolOf(1, startingPod());
  const other = unreadyPod({ isNodeSilent: true });
  beside({ ...other, metadata: { ...other.metadata, name: "inst-pool-w-bbbbbb", uid: "b" } });
  await reconcile();
  pass(300_000);
  await reconcile();
  assert.is(failures(), 0);
  assert.match(events().join(), /node "node-1" does not answer/);
});

test("an old pod whose program was started again without a trace of the one before stays for half a minute too", async () => {
  const starting = startingPod();
  const again = structuredClone(starting);
  const lastTransitionTime = new Date(Date.now() - 5_000).toISOString();
  for (const condition of again.status?.conditions ?? [])
    if (condition.type === "Ready") condition.lastTransitionTime = lastTransitionTime;
  for (const program of again.status?.containerStatuses ?? [])
    program.state = { running: { startedAt: new Date(Date.now() - 4_000).toISOString() } };
  const { reconcile, writes, pass } = poolOf(1, starting);
  await reconcile();
  pass(600_000);
  assert.is((await reconcile(again))?.requeueAfterMs, 30_000);
  assert.equal(writes(), []);
});

test("a pod whose sandbox is made again stays for half a minute, also while its condition is still true", async () => {
  const pod = unreadyPod({ unreadyForMs: 400_000 });
  const lastTransitionTime = new Date(Date.now() - 5_000).toISOString();
  for (const condition of pod.status?.conditions ?? []) condition.status = "True";
  pod.status?.conditions?.push({ type: "PodReadyToStartContainers", status: "False", lastTransitionTime });
  const { reconcile, writes } = poolOf(1, pod);
  assert.is((await reconcile())?.requeueAfterMs, 30_000);
  assert.equal(writes(), []);
});

test("a pod that was never ready has until the limit of its start, and is a failure then", async () => {
  const { reconcile, writes, failures, pass } = poolOf(1, startingPod());
  assert.is((await reconcile())?.requeueAfterMs, 300_000);
  pass(299_999);
  assert.is((await reconcile())?.requeueAfterMs, 1);
  assert.equal(writes(), []);
  pass(1);
  await reconcile();
  assert.equal([writes(), failures()], [["delete"], 1]);
});

/** A pod that has ended. */
function endedPod(status: { reason?: string; message?: string }, pod = unreadyPod()): Pod {
  return { ...pod, status: { ...pod.status, phase: "Failed", ...status } };
}

test("a warm pod that its node has ended is none that fails to start; one that takes too much disk is, and one that never was ready", async () => {
  for (const [pod, expected] of [
    [endedPod({ reason: "Evicted", message: "The node was low on resource: memory." }), 0],
    [endedPod({ reason: "Terminated", message: "Pod was terminated in response to imminent node shutdown." }), 0],
    [endedPod({ reason: "Evicted", message: "Pod ephemeral local storage usage exceeds the total limit of 1Gi." }), 1],
    [endedPod({}), 1],
    [endedPod({ reason: "OutOfcpu" }, startingPod()), 1],
  ] as const) {
    const { reconcile, writes, failures } = poolOf(1, pod);
    await reconcile();
    assert.equal([writes(), failures()], [["delete"], expected], JSON.stringify(pod.status?.reason));
  }
});

test.run();
