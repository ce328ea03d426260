import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { pools, workloads } from "../../../crds/kinds.ts";
import type { ContainerState, Pod } from "../../../crds/kubernetes.ts";
import { label, WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { poolInstanceName } from "../../../crds/names.ts";
import type { Workload } from "../../../crds/workload.ts";
import { renderPod } from "../../../operator/pod/render-pod.ts";
import { createPoolController } from "../../../operator/pool/controller.ts";
import { writePoolStatus } from "../../../operator/pool/write-pool-status.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("pods of a pool that were ready and are not any more");

const startedAt = "2026-01-01T00:00:00Z";
const later = "2026-01-01T01:00:00Z";

/** A pool of that size, whose controller is asked by hand. */
function filling({ size, maxFillConcurrency }: { size: number; maxFillConcurrency: number }) {
  const { api, context } = testOperator();
  const workload: Workload = api.add(workloads, {
    metadata: { name: "w", generation: 1 },
    spec: { image: { ref: "i:1" } },
    status: { phase: "Ready", observedGeneration: 1 },
  });
  api.add(pools, { metadata: { name: "p", generation: 1 }, spec: { workloadRef: "w", size, maxFillConcurrency } });
  const controller = createPoolController(context);
  let made = 0;

  function put(name: string, status: Pod["status"]): void {
    const pod = renderPod(workload, { name, labels: { [label.pool]: "p" }, annotations: {} }, context.config);
    api.add(pods, { ...pod, status: { podIP: "10.0.0.1", ...status } as Pod["status"] & object });
  }

  return {
    context,
    reconcile: () => controller.reconcile("n/p", { signal: new AbortController().signal }),
    created: () => api.calls.filter(({ verb }) => verb === "create").length,
    deleted: () => api.calls.filter(({ verb }) => verb === "delete").map(({ name }) => name),
    status: async () => {
      await writePoolStatus("n/p", context);
      return api.read(pools, "p").status;
    },
    /** Pods that were ready for an hour, and whose program is in that state. */
    unready(count: number, state: ContainerState = { running: { startedAt } }) {
      return Array.from({ length: count }, () => {
        made += 1;
        const name = poolInstanceName({ workload: "w", suffix: `x${made}` });
        put(name, {
          conditions: [
            { type: "PodScheduled", status: "True", lastTransitionTime: startedAt },
            { type: "Ready", status: "False", lastTransitionTime: later },
          ],
          containerStatuses: [
            { ...{ name: WORKLOAD_CONTAINER, image: "i:1", imageID: "", ready: false, restartCount: 0 }, state },
          ],
        });
        return name;
      });
    },
    ready(names = api.all(pods).map(({ metadata }) => metadata.name)) {
      for (const name of names) put(name, { conditions: [{ type: "Ready", status: "True" }] });
    },
  };
}

test("others are started in their place at once, as many as the pool may start", async () => {
  const pool = filling({ size: 4, maxFillConcurrency: 2 });
  pool.unready(4);
  await pool.reconcile();
  assert.is(pool.created(), 2);
  await pool.reconcile();
  assert.is(pool.created(), 2, "two are starting");
  assert.equal(pool.deleted(), []);
  const { phase, reason, ready, warming } = (await pool.status()) ?? {};
  assert.equal([phase, reason, ready, warming], ["Filling", "PodsUnready", 0, 2]);
});

test("those that recover are counted, and the pods that were started for them go", async () => {
  const pool = filling({ size: 2, maxFillConcurrency: 2 });
  const lost = pool.unready(2);
  await pool.reconcile();
  pool.ready(lost);
  await pool.reconcile();
  assert.equal([pool.created(), pool.deleted().length], [2, 2]);
  assert.not.ok(pool.deleted().some((name) => lost.includes(name)));
  const { phase, reason } = (await pool.status()) ?? {};
  assert.equal([phase, reason], ["Ready", undefined]);
});

test("a program that never stays ready is not started again and again", async () => {
  const pool = filling({ size: 2, maxFillConcurrency: 2 });
  pool.unready(4);
  await pool.reconcile();
  assert.is(pool.created(), 0);
});

test("a pod whose program has ended and is started again holds its slot", async () => {
  const pool = filling({ size: 4, maxFillConcurrency: 2 });
  pool.unready(1, { waiting: { reason: "CrashLoopBackOff" } });
  pool.unready(1, { running: { startedAt: later } });
  await pool.reconcile();
  assert.is(pool.created(), 0);
});

test.run();
