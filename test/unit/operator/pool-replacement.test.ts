import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { pools, workloads } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import { poolInstanceName } from "../../../crds/names.ts";
import type { Workload } from "../../../crds/workload.ts";
import { renderPod } from "../../../operator/pod/render-pod.ts";
import { createPoolController } from "../../../operator/pool/controller.ts";
import { reconcileMember } from "../../../operator/pool/reconcile-member.ts";
import { writePoolStatus } from "../../../operator/pool/write-pool-status.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("pods of a pool that are replaced");
const ready = { podIP: "10.0.0.1", conditions: [{ type: "Ready", status: "True" }] };
const unschedulable = { conditions: [{ type: "PodScheduled", status: "False", message: "0/1 nodes are available" }] };

/** A pool that is full of ready pods, made by operators before this one. */
function full(size: number, { historySince }: { historySince?: string } = {}) {
  const { api, context } = testOperator({ historySince });
  api.now = () => Date.parse("2026-01-01T00:00:00Z");
  const workload: Workload = api.add(workloads, {
    metadata: { name: "w", generation: 1 },
    spec: { image: { ref: "i:1" } },
    status: { phase: "Ready", observedGeneration: 1 },
  });
  api.add(pools, { metadata: { name: "p", generation: 1 }, spec: { workloadRef: "w", size } });
  for (let count = 0; count < size; count += 1) {
    const name = poolInstanceName({ workload: "w", suffix: `x${count}` });
    const pod = renderPod(workload, { name, labels: { [label.pool]: "p" }, annotations: {} }, context.config);
    api.add(pods, { ...pod, status: ready });
  }
  const before = new Set(api.all(pods).map(({ metadata }) => metadata.name));
  api.now = () => Date.parse("2026-01-01T01:00:00Z");
  const controller = createPoolController(context);
  const setStatus = (pod: Pod, status: object) => api.add(pods, { ...pod, status: status as Pod["status"] & object });
  const all = () => api.all<Pod>(pods);
  return {
    async reconcile() {
      for (const pod of all()) await reconcileMember(pod, "p", context);
      return controller.reconcile("n/p", { signal: new AbortController().signal });
    },
    refuseDeletion: () =>
      api.onNext("delete", new ApiError("it has changed", { status: 409, reason: "Conflict" }), pods),
    deleted: () => api.verbs().filter((verb) => verb === "delete").length,
    created: () => api.verbs().filter((verb) => verb === "create").length,
    readyPods: () => all().filter(({ status }) => status?.conditions?.[0]?.status === "True" && status.podIP).length,
    left: () => all().filter(({ metadata }) => before.has(metadata.name)).length,
    /** What a node does with one pod that waits for it, if there is room. */
    startOne({ hasRoom = true } = {}) {
      const waiting = all().find(({ status }) => status?.podIP === undefined);
      if (waiting !== undefined) setStatus(waiting, hasRoom ? ready : unschedulable);
      return waiting !== undefined;
    },
    status: async () => {
      await writePoolStatus("n/p", context);
      return api.read(pools, "p").status;
    },
    /** Scales the pool, while the workload is in Error if that is asked for. */
    async scale(size: number, { isBroken = false } = {}) {
      const { status: _, ...workload } = api.read(workloads, "w");
      const status = { phase: isBroken ? "Error" : "Ready", observedGeneration: 1 } as const;
      if (isBroken) api.add(workloads, { ...workload, status });
      api.add(pools, { metadata: { name: "p", generation: 2 }, spec: { workloadRef: "w", size } });
      await controller.reconcile("n/p", { signal: new AbortController().signal });
    },
    edit: () => {
      const { spec, ...others } = api.read(workloads, "w");
      const status = { phase: "Ready", observedGeneration: 2 } as const;
      api.add(workloads, { ...others, spec: { ...spec, entrypoint: { env: { VERSION: "2" } } }, status });
    },
  };
}

const historySince = "2026-01-01T00:00:00Z";

test("those of unknown history stay until another one is ready, which no more at once are started for", async () => {
  const pool = full(20, { historySince });
  await pool.reconcile();
  assert.equal([pool.deleted(), pool.created()], [0, 5]);
  assert.equal((await pool.status())?.ready, 0, "no claim may have one");
  for (let count = 1; count <= 20; count += 1) {
    assert.ok(pool.startOne());
    await pool.reconcile();
    assert.equal([pool.readyPods(), pool.left()], [20, 20 - count]);
  }
  const { ready: claimable, phase } = (await pool.status()) ?? {};
  assert.equal([claimable, phase, pool.created()], [20, "Ready", 20]);
});

test("one that changed while it was to go is looked at again", async () => {
  const pool = full(2, { historySince });
  await pool.reconcile();
  pool.startOne();
  await pool.reconcile();
  pool.startOne();
  pool.refuseDeletion();
  assert.equal(await pool.reconcile(), { requeueAfterMs: 1000 });
  assert.is(pool.readyPods(), 3);
  await pool.reconcile();
  assert.equal([pool.readyPods(), pool.left()], [2, 0]);
});

test("a pool whose history is known keeps what it has", async () => {
  const pool = full(20, { historySince: "2025-12-31T00:00:00Z" });
  await pool.reconcile();
  assert.equal([pool.deleted(), pool.created(), (await pool.status())?.phase], [0, 0, "Ready"]);
});

for (const isBroken of [false, true]) {
  test(`a pool that is scaled down keeps no more than its size${isBroken ? ", though its workload is in Error" : ""}`, async () => {
    const pool = full(3);
    await pool.reconcile();
    await pool.scale(1, { isBroken });
    assert.equal([pool.left(), pool.created()], [1, 0]);
  });
}

for (const [what, options] of Object.entries({ "of unknown history": { historySince }, "of an old template": {} })) {
  test(`where the nodes have no room beside those ${what}, one goes before each new one, and no more`, async () => {
    const pool = full(3, options);
    pool.edit();
    for (let count = 0; count < 3; count += 1) {
      await pool.reconcile();
      assert.is(pool.readyPods(), 3);
      pool.startOne({ hasRoom: false });
      await pool.reconcile();
      await pool.reconcile();
      assert.is(pool.readyPods(), 2);
      pool.startOne();
    }
    await pool.reconcile();
    assert.equal([pool.readyPods(), pool.left()], [3, 0]);
  });
}

test.run();
