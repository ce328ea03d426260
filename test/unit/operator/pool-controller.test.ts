import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { pools, workloads } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { poolInstanceName } from "../../../crds/names.ts";
import type { Pool } from "../../../crds/pool.ts";
import { createDeferred } from "../../../crds/waits.ts";
import type { Workload } from "../../../crds/workload.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { renderPod } from "../../../operator/pod/render-pod.ts";
import { createPoolController } from "../../../operator/pool/controller.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("createPoolController");

const config = operatorConfig({ TENANCY_NAMESPACE: "n" });
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
  const { api, context } = testOperator();
  for (const one of [pool, other]) api.add(pools, one);
  api.add(workloads, workload);
  for (const pod of present.filter(({ metadata: { uid } }) => !cached.some((one) => one.metadata.uid === uid)))
    api.add(pods, pod, { hidden: true });
  for (const pod of cached) api.add(pods, pod);
  const deleted = createDeferred<void>();
  api.onNext("delete", () => deleted.promise);
  const controller = createPoolController(context);
  const reconcile = (key = "n/p") => controller.reconcile(key, { signal: new AbortController().signal });
  return { api, reconcile, endDeletion: () => deleted.resolve() };
}

test("a pod that somebody moves to another pool, and its way back, concern both pools", () => {
  const { context } = testOperator();
  const proven = { conditions: [{ type: "Ready", status: "True" as const }] };
  const pod = { ...member("aaaaaa"), status: proven };
  const moved = { ...member("aaaaaa", "other"), status: proven };
  const keysOf = (object: Pod, previous: Pod) =>
    createPoolController(context)
      .watches.filter(({ informer }) => informer === context.informers.pods)
      .flatMap(({ map }) => [...map({ type: "modified", object, previous })])
      .sort();
  assert.equal(keysOf(moved, pod), ["n/other", "n/p"]);
  assert.equal(keysOf(pod, moved), ["n/other", "n/p"]);
  assert.equal(keysOf(pod, pod), []);
});

test("a new leader creates no pod that its predecessor did and its cache does not show", async () => {
  const { api, reconcile } = newLeader({ cached: [member("aaaaaa")], present: [member("aaaaaa"), member("bbbbbb")] });
  await reconcile();
  assert.equal(api.verbs(), ["list"]);
});

test("a new leader reads the members of pools once, and before it creates the first pod", async () => {
  const { api, reconcile } = newLeader({ cached: [member("aaaaaa")], present: [member("aaaaaa")] });
  api.onNext("list", new Error("cut"));
  await reconcile().then(
    () => assert.unreachable(),
    (error: Error) => assert.is(error.message, "cut"),
  );
  await reconcile();
  await reconcile();
  assert.equal(api.verbs(), ["list", "list", "create"]);
});

test("a new leader does not read the members of a pool that lacks none", async () => {
  const full = [member("aaaaaa"), member("bbbbbb")];
  const { api, reconcile } = newLeader({ cached: full, present: full });
  await reconcile();
  assert.equal(api.verbs(), []);
});

test("a new leader counts again what it counted before another pool's run read the members", async () => {
  const old = member("cccccc", "other");
  const outdated: Pod = {
    metadata: { ...old.metadata, annotations: { ...old.metadata.annotations, [annotation.templateHash]: "older" } },
    spec: old.spec,
  };
  const present = [member("aaaaaa"), member("bbbbbb"), member("dddddd", "other")];
  const { api, reconcile, endDeletion } = newLeader({ cached: [outdated], present });
  const ofOther = reconcile("n/other");
  await reconcile();
  endDeletion();
  await ofOther;
  assert.not.ok(api.verbs().includes("create"), api.verbs().join());
});

test.run();
