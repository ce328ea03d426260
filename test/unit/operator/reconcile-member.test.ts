import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { pools } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { label, WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { reconcileMember } from "../../../operator/pool/reconcile-member.ts";
import { createRefillPause } from "../../../operator/pool/refill-pause.ts";
import { manualClock } from "../manual-clock.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("reconcileMember");

const readyPod: Pod = {
  metadata: {
    ...{ name: "inst-pool-w-abcdef", namespace: "n", uid: "pod-uid" },
    labels: { [label.workload]: "w", [label.pool]: "p", [label.poolStatus]: "warming" },
  },
  spec: { containers: [] },
  status: { podIP: "10.0.0.1", conditions: [{ type: "Ready", status: "True" }] },
};

/** A pod whose program runs for ten minutes, and which became unready so many seconds ago. */
function unreadyPod({ unreadyForMs, status = "warming" }: { unreadyForMs: number; status?: string }): Pod {
  const ago = (ms: number) => new Date(Date.now() - ms).toISOString();
  return {
    ...readyPod,
    metadata: { ...readyPod.metadata, labels: { ...readyPod.metadata.labels, [label.poolStatus]: status } },
    status: {
      ...{ phase: "Running", podIP: "10.0.0.1" },
      conditions: [
        { type: "PodScheduled", status: "True", lastTransitionTime: ago(602_000) },
        { type: "Ready", status: "False", lastTransitionTime: ago(unreadyForMs) },
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

/** A pool with so many ready pods, and what is written to one of them. */
function poolOf(ready: number, pod = readyPod) {
  const clock = manualClock();
  const refillPause = createRefillPause(clock);
  const { api, context } = testOperator({ refillPause });
  api.add(pools, { metadata: { name: "p" }, spec: { workloadRef: "w", size: ready } });
  for (let count = 1; count < ready; count += 1)
    api.add(pods, { ...readyPod, metadata: { ...readyPod.metadata, name: `inst-pool-w-${count}`, uid: `${count}` } });
  const member = api.add(pods, pod);
  return {
    ...{
      refillPause,
      reconcile: () => reconcileMember(member, "p", context),
      pass: (ms: number) => clock.set(clock.now() + ms),
    },
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
  test(`an old pod labelled ${status} that is unready for a moment stays, and counts as no failure`, async () => {
    const { reconcile, label, writes, failures } = poolOf(1, unreadyPod({ unreadyForMs: 5_000, status }));
    const { requeueAfterMs = 0 } = (await reconcile()) ?? {};
    assert.ok(requeueAfterMs > 20_000 && requeueAfterMs <= 25_000, `${requeueAfterMs}`);
    assert.equal([label(), writes(), failures()], ["warming", status === "ready" ? ["patch"] : [], 0]);
  });
}

test("a pod that is unready for half a minute goes, also where its label never said that it was ready", async () => {
  const { reconcile, writes } = poolOf(1, unreadyPod({ unreadyForMs: 31_000 }));
  await reconcile();
  assert.equal(writes(), ["delete"]);
});

test("an old pod whose program was started anew without a trace of the one before stays for half a minute too", async () => {
  const pod = unreadyPod({ unreadyForMs: 5_000 });
  for (const program of pod.status?.containerStatuses ?? [])
    program.state = { running: { startedAt: new Date(Date.now() - 4_000).toISOString() } };
  const { reconcile, writes } = poolOf(1, pod);
  const { requeueAfterMs = 0 } = (await reconcile()) ?? {};
  assert.ok(requeueAfterMs > 20_000 && requeueAfterMs <= 25_000, `${requeueAfterMs}`);
  assert.equal(writes(), []);
});

test("a pod whose sandbox is made anew stays for half a minute, also while its condition is still true", async () => {
  const pod = unreadyPod({ unreadyForMs: 400_000 });
  const lastTransitionTime = new Date(Date.now() - 5_000).toISOString();
  for (const condition of pod.status?.conditions ?? []) condition.status = "True";
  pod.status?.conditions?.push({ type: "PodReadyToStartContainers", status: "False", lastTransitionTime });
  const { reconcile, writes } = poolOf(1, pod);
  const { requeueAfterMs = 0 } = (await reconcile()) ?? {};
  assert.ok(requeueAfterMs > 20_000 && requeueAfterMs <= 25_000, `${requeueAfterMs}`);
  assert.equal(writes(), []);
});

test("a pod that was never ready has until the limit of its start", async () => {
  const pod = unreadyPod({ unreadyForMs: 601_000 });
  const { reconcile, writes } = poolOf(1, pod);
  await reconcile();
  assert.equal(writes(), ["delete"]);
  const young = structuredClone(pod);
  const startedAt = new Date(Date.now() - 100_000).toISOString();
  for (const condition of young.status?.conditions ?? []) condition.lastTransitionTime = startedAt;
  for (const program of young.status?.containerStatuses ?? []) program.state = { running: { startedAt } };
  const { requeueAfterMs = 0 } = (await poolOf(1, young).reconcile()) ?? {};
  assert.ok(requeueAfterMs > 190_000 && requeueAfterMs <= 200_000, `${requeueAfterMs}`);
});

test.run();
