import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createStore } from "../../../crds/client/watch/store.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { poolInstanceName } from "../../../crds/names.ts";
import type { Pool } from "../../../crds/pool.ts";
import { createDeferred } from "../../../crds/waits.ts";
import type { Workload } from "../../../crds/workload.ts";
import { operatorConfig } from "../../../operator/config.ts";
import type { OperatorContext } from "../../../operator/context.ts";
import { renderPod } from "../../../operator/pod/render-pod.ts";
import { createPoolController } from "../../../operator/pool/controller.ts";
import { createFailureRecord } from "../../../operator/pool/pool-failures.ts";
import { poolIndex, warmIndex } from "../../../operator/pool/pool-member.ts";
import { createRefillPause } from "../../../operator/pool/refill-pause.ts";

const test = suite("createPoolController");

const config = operatorConfig({ TENANCY_OPERATOR_LISTEN: "off" });
const { namespace } = config;
const workload: Workload = {
  metadata: { name: "w", namespace, uid: "w-uid", generation: 1 },
  spec: { image: { ref: "i:1" } },
  status: { phase: "Ready", observedGeneration: 1 },
};
const pool: Pool = { metadata: { name: "p", namespace, generation: 1 }, spec: { workloadRef: "w", size: 2 } };
const other: Pool = { metadata: { name: "other", namespace, generation: 1 }, spec: { workloadRef: "w", size: 1 } };

function member(suffix: string, poolName = "p"): Pod {
  const name = poolInstanceName({ workload: "w", suffix });
  const pod = renderPod(workload, { name, labels: { [label.pool]: poolName }, annotations: {} }, config);
  return {
    ...pod,
    metadata: { ...pod.metadata, uid: suffix, resourceVersion: "1" },
    status: { podIP: "10.0.0.1", conditions: [{ type: "Ready", status: "True" }] },
  };
}

/** The pool of a new leader whose cache has some members, and the API server others. */
function newLeader({ cached, present }: { cached: Pod[]; present: Pod[] }) {
  const pods = createStore<Pod, "pool" | "warm">({ indexes: { pool: poolIndex, warm: warmIndex } });
  for (const pod of cached) pods.put(pod);
  const calls: string[] = [];
  const deleted = createDeferred<void>();
  let failures = 0;
  const context = {
    config,
    client: {
      async list() {
        calls.push("list");
        if (failures-- > 0) throw new Error("cut");
        return { metadata: {}, items: present };
      },
      async delete() {
        calls.push("delete");
        await deleted.promise;
      },
      async create(_resource: unknown, pod: Pod) {
        calls.push("create");
        return { ...pod, metadata: { ...pod.metadata, uid: pod.metadata.name, resourceVersion: "2" } };
      },
    },
    informers: {
      pods: { store: pods, put: (pod: Pod) => void pods.put(pod) },
      pools: { store: { get: (key: string) => (key === "n/other" ? other : pool) } },
      workloads: { store: { get: () => workload } },
    },
    reservedPods: new Set(),
    poolFailures: createFailureRecord({ onChange: () => undefined }),
    refillPause: createRefillPause(),
  };
  const controller = createPoolController(context as unknown as OperatorContext);
  const reconcile = (key = "n/p") => controller.reconcile(key, { signal: new AbortController().signal });
  return { reconcile, calls, failNext: () => (failures = 1), endDeletion: () => deleted.resolve() };
}

test("a new leader creates no pod that its predecessor did and its cache does not show", async () => {
  const { reconcile, calls } = newLeader({ cached: [member("aaaaaa")], present: [member("aaaaaa"), member("bbbbbb")] });
  await reconcile();
  assert.equal(calls, ["list"]);
});

test("a new leader reads the members of pools once, and before it creates the first pod", async () => {
  const { reconcile, calls, failNext } = newLeader({ cached: [member("aaaaaa")], present: [member("aaaaaa")] });
  failNext();
  await reconcile().then(
    () => assert.unreachable(),
    (error: Error) => assert.is(error.message, "cut"),
  );
  await reconcile();
  await reconcile();
  assert.equal(calls, ["list", "list", "create"]);
});

test("a new leader does not read the members of a pool that lacks none", async () => {
  const full = [member("aaaaaa"), member("bbbbbb")];
  const { reconcile, calls } = newLeader({ cached: full, present: full });
  await reconcile();
  assert.equal(calls, []);
});

test("a new leader counts again what it counted before another pool's run read the members", async () => {
  const old = member("cccccc", "other");
  const outdated: Pod = {
    metadata: { ...old.metadata, annotations: { ...old.metadata.annotations, [annotation.templateHash]: "older" } },
    spec: old.spec,
  };
  const present = [member("aaaaaa"), member("bbbbbb"), member("dddddd", "other")];
  const { reconcile, calls, endDeletion } = newLeader({ cached: [outdated], present });
  const ofOther = reconcile("n/other");
  await reconcile();
  endDeletion();
  await ofOther;
  assert.not.ok(calls.includes("create"), calls.join());
});

test.run();
