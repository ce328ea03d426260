import { test } from "uvu";
import * as assert from "uvu/assert";
import type { BuildContexts } from "../../../crds/builds/build-contexts.ts";
import { ApiError } from "../../../crds/client/api-error.ts";
import type { Store } from "../../../crds/client/watch/store.ts";
import { createStore } from "../../../crds/client/watch/store.ts";
import type { ConfigMap, ContainerState, Job, KubernetesObject, NetworkPolicy, Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import type { Resource } from "../../../crds/resource.ts";
import type { BuildStatus, Workload } from "../../../crds/workload.ts";
import { createBackgroundWork } from "../../../operator/background-work.ts";
import { type BuilderContext, countUnderWay } from "../../../operator/builds/build-jobs.ts";
import { createBuildTurns } from "../../../operator/builds/build-turns.ts";
import { buildWatches } from "../../../operator/builds/build-watches.ts";
import {
  builderContext,
  deleteBuilds,
  deleteContexts,
  ensureBuild,
  leaveWaiting,
} from "../../../operator/builds/ensure-build.ts";
import { renderBuildJob } from "../../../operator/builds/render-build.ts";
import { type BuildConfig, operatorConfig } from "../../../operator/config.ts";
import type { OperatorContext } from "../../../operator/context.ts";
import { createMetrics } from "../../../operator/metrics.ts";
import { silentLog } from "../silent-log.ts";

const NAMESPACE = "tenancy";
const builds = operatorConfig({ TENANCY_REGISTRY: "r.example/built" }).builds as BuildConfig;
const ago = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();
const running: ContainerState = { running: { startedAt: ago(0) } };
const fromGit: Workload["spec"] = {
  image: { dockerfile: "Dockerfile", context: { git: { url: "https://git.example/x" } } },
};
const fromConfigMap: Workload["spec"] = {
  image: { dockerfile: "Dockerfile", context: { configMapRef: { name: "files" } } },
};
const fromUpload: Workload["spec"] = { image: { dockerfile: "Dockerfile" } };

interface Cluster {
  readonly context: OperatorContext;
  /** What was asked of the API server, as `get jobs`. */
  readonly requests: string[];
  /** Options of what was deleted. */
  readonly deletions: unknown[];
  /** The API server's, without the caches. */
  readonly objects: Map<string, KubernetesObject>;
  /** Has all requests of that kind fail. */
  fail(request: string, error: Error): void;
  /** What reconciles one workload until its status stays as it is, as events would. */
  settle(name: string): Promise<Workload>;
  workload(name: string): Workload;
  jobs(): Job[];
}

function cluster(...given: KubernetesObject[]): Cluster {
  const requests: string[] = [];
  const deletions: unknown[] = [];
  const objects = new Map<string, KubernetesObject>();
  const failures = new Map<string, Error>();
  let version = 1;
  const jobs: Store<Job, "workload"> = createStore({
    indexes: { workload: (job: Job) => job.metadata.labels?.[label.workload] },
  });
  const workloads: Store<Workload, "queuedBuild" | "configMap"> = createStore({
    indexes: { queuedBuild: () => undefined, configMap: () => undefined },
  });
  const policies = createStore<NetworkPolicy>({ indexes: {} });
  const informerOf = <S extends { put(object: never): boolean }>(store: S) => ({ store, put: store.put });
  const idOf = (plural: string, { namespace, name }: { namespace?: string | undefined; name: string }) =>
    `${plural} ${namespace}/${name}`;
  const keep = <T extends KubernetesObject>(plural: string, object: T): T => {
    version += 1;
    const { creationTimestamp = ago(0), uid = `uid-${version}` } = object.metadata;
    const kept = { ...object, metadata: { ...object.metadata, creationTimestamp, uid, resourceVersion: `${version}` } };
    objects.set(idOf(plural, kept.metadata), kept);
    return kept;
  };
  const ask = (verb: string, { plural }: { plural: string }) => {
    requests.push(`${verb} ${plural}`);
    const failure = failures.get(`${verb} ${plural}`);
    if (failure !== undefined) throw failure;
  };
  const client = {
    async get(resource: Resource<never>, ref: { namespace?: string; name: string }) {
      ask("get", resource);
      const found = objects.get(idOf(resource.plural, ref));
      if (found === undefined) throw new ApiError("not found", { status: 404, reason: "NotFound" });
      return found;
    },
    async list(resource: Resource<never>) {
      ask("list", resource);
      const items = [...objects].filter(([id]) => id.startsWith(`${resource.plural} `)).map(([, object]) => object);
      return { metadata: {}, items };
    },
    async create(resource: Resource<never>, object: KubernetesObject) {
      ask("create", resource);
      return keep(resource.plural, object);
    },
    async apply(resource: Resource<never>, object: KubernetesObject) {
      ask("patch", resource);
      return keep(resource.plural, object);
    },
    async patch(resource: Resource<never>, ref: { namespace: string; name: string }, { body }: { body: Partial<Job> }) {
      ask("patch", resource);
      const before = objects.get(idOf(resource.plural, ref)) as KubernetesObject;
      return keep(resource.plural, { ...before, metadata: { ...before.metadata, ...body.metadata } });
    },
    async delete(resource: Resource<never>, ref: { namespace: string; name: string }, options: unknown) {
      ask("delete", resource);
      deletions.push(options);
      const id = idOf(resource.plural, ref);
      jobs.remove(objects.get(id) as Job);
      objects.delete(id);
    },
  };
  for (const object of given) {
    const plural = { Job: "jobs", Pod: "pods", ConfigMap: "configmaps" }[object.kind ?? ""] ?? "tenancyworkloads";
    const kept = keep(plural, object);
    if (plural === "jobs") jobs.put(kept as Job);
    if (plural === "tenancyworkloads") workloads.put(kept as Workload);
  }
  const quiet = { subscribe: () => () => undefined };
  const context = {
    client,
    config: { namespace: NAMESPACE, builds, snapshots: operatorConfig({}).snapshots },
    informers: {
      workloads: { ...quiet, ...informerOf(workloads) },
      builds: {
        jobs: { ...quiet, ...informerOf(jobs) },
        policies: { ...quiet, ...informerOf(policies) },
        pods: quiet,
        configMaps: quiet,
      },
    },
    log: silentLog,
    metrics: createMetrics(),
    feeds: createBackgroundWork<void>({ concurrency: 2 }),
    buildTurns: createBuildTurns(),
    exec: () => Promise.reject(new Error("the helper pod does not run")),
    contexts: { erase: () => Promise.reject(new Error("the helper pod does not run")) },
    enqueueWorkload: () => undefined,
  } as unknown as OperatorContext;
  const workload = (name: string) => objects.get(idOf("tenancyworkloads", { namespace: NAMESPACE, name })) as Workload;
  return {
    ...{ context, requests, deletions, objects, workload },
    fail: (request, error) => void failures.set(request, error),
    jobs: () => [...objects].filter(([id]) => id.startsWith("jobs ")).map(([, job]) => job as Job),
    async settle(name) {
      for (let runs = 0; runs < 10; runs += 1) {
        const present = workload(name);
        const outcome = await ensureBuild(present, context);
        const { image, build } = outcome ?? {};
        const status = { ...present.status, image, build } as Workload["status"];
        if (JSON.stringify(status) === JSON.stringify(present.status)) return present;
        workloads.put(keep("tenancyworkloads", { ...present, status }) as Workload);
        // What a feed does comes back by an event.
        await new Promise((resolve) => setImmediate(resolve));
      }
      throw new Error(`its status is another each time: ${JSON.stringify(workload(name).status)}`);
    },
  };
}

function workload(spec: Workload["spec"], more: { status?: Workload["status"]; annotations?: object } = {}): Workload {
  const { annotations = {}, status } = more;
  const metadata = { name: "w", namespace: NAMESPACE, uid: "u", annotations: { ...annotations } };
  return { kind: "TenancyWorkload", metadata, spec, ...(status !== undefined && { status }) };
}

const files: ConfigMap = {
  kind: "ConfigMap",
  metadata: { name: "files", namespace: NAMESPACE },
  data: { Dockerfile: "FROM scratch\n" },
};

/** A build that was begun, with the Job of that age and its pod. */
async function begun(
  spec: Workload["spec"],
  {
    minutes,
    pod,
    job = {},
  }: { minutes: number; pod?: Pod["status"]; job?: Partial<Job["metadata"]> & { status?: Job["status"] } },
): Promise<Cluster> {
  const first = cluster(workload(spec), files);
  const { status } = await first.settle("w");
  const { status: jobStatus, ...metadata } = job;
  const [made] = first.jobs();
  const old = { ...made, kind: "Job", metadata: { ...made?.metadata, creationTimestamp: ago(minutes), ...metadata } };
  const podOf = {
    kind: "Pod",
    metadata: { name: "p", namespace: builds.namespace, ownerReferences: [{ uid: made?.metadata.uid }] },
    spec: { containers: [] },
    status: pod,
  };
  const objects = [
    workload(spec, { status }),
    { ...old, status: jobStatus },
    ...(pod === undefined ? [] : [podOf]),
    files,
  ];
  return cluster(...(objects as KubernetesObject[]));
}

const states = (context?: ContainerState, build?: ContainerState, more: Partial<Pod["status"]> = {}): Pod["status"] => {
  const shown = (name: string, state: ContainerState | undefined) =>
    state === undefined ? [] : [{ name, image: "b:1", imageID: "", ready: false, restartCount: 0, state }];
  return { ...more, initContainerStatuses: shown("context", context), containerStatuses: shown("build", build) };
};
const creating: ContainerState = { waiting: { reason: "PodInitializing" } };

test("ensureBuild: a context that took longer than a start may is no pod that does not start", async () => {
  const fetched: ContainerState = { terminated: { exitCode: 0, reason: "Completed" } as never };
  const { settle, jobs } = await begun(fromGit, { minutes: 10, pod: states(fetched, creating) });
  const { status } = await settle("w");
  assert.equal([status?.build?.state, status?.build?.message, jobs().length], ["Building", undefined, 1]);
});

test("ensureBuild: a pod that does not start gives its place up; one whose image is being pulled keeps it", async () => {
  const stuck = await begun(fromGit, { minutes: 10, pod: states(creating) });
  const { status } = await stuck.settle("w");
  assert.is(status?.build?.reason, "BuilderUnavailable");
  assert.match(status?.build?.message ?? "", /did not begin within 300 s: its pod does not start.*begun anew after/);
  assert.is(stuck.jobs().length, 0);
  const hasSandbox = [{ type: "PodReadyToStartContainers", status: "True" as const }];
  const pulling = await begun(fromGit, { minutes: 10, pod: states(creating, undefined, { conditions: hasSandbox }) });
  assert.is((await pulling.settle("w")).status?.build?.state, "Building");
  assert.is(pulling.jobs().length, 1);
});

test("ensureBuild: a context that cannot be brought for long gives its place up", async () => {
  const young = await begun(fromConfigMap, { minutes: 1, pod: states(running) });
  assert.is((await young.settle("w")).status?.build?.state, "Building");
  const old = await begun(fromConfigMap, { minutes: 10, pod: states(running) });
  await old.settle("w");
  const { status } = await old.settle("w");
  assert.is(status?.build?.reason, "BuilderUnavailable");
  assert.match(status?.build?.message ?? "", "could not be brought: the helper pod does not run");
  assert.is(old.jobs().length, 0);
});

test("ensureBuild: a Job that is refused is asked for again after a pause, and not at each run", async () => {
  const { settle, fail, requests } = cluster(workload(fromGit));
  let asked = 0;
  fail("create jobs", new ApiError("refused", { status: 403, reason: "Forbidden" }));
  const { status } = await settle("w");
  assert.equal([status?.build?.reason, status?.build?.tries], ["BuilderUnavailable", 1]);
  assert.match(status?.build?.message ?? "", /the cluster refuses.*begun anew after/);
  asked = requests.filter((request) => request === "create jobs").length;
  fail("create jobs", new ApiError("refused otherwise", { status: 403, reason: "Forbidden" }));
  for (let runs = 0; runs < 5; runs += 1) await settle("w");
  assert.is(asked, 1);
  assert.is(requests.filter((request) => request === "create jobs").length, 1);
});

test("ensureBuild: of a build that never ran its deadline is no fault; of one that ran it is", async () => {
  const late = {
    conditions: [{ type: "Failed", status: "True" as const, reason: "DeadlineExceeded", lastTransitionTime: ago(1) }],
    failed: 1,
  };
  const away = await begun(fromConfigMap, { minutes: 31, job: { status: late } });
  const { status } = await away.settle("w");
  assert.equal([status?.build?.state, status?.build?.tries], ["Building", 1], "it is begun anew");

  const ran = await begun(fromConfigMap, { minutes: 29, pod: states(undefined, running) });
  const { status: during } = await ran.settle("w");
  assert.is(during?.build?.message, undefined);
  const [job] = ran.jobs();
  // Its pod goes before it is said to have failed.
  const jobWith = (jobStatus: Job["status"]) => ({ ...job, kind: "Job", status: jobStatus }) as Job;
  const ending = cluster(workload(fromConfigMap, { status: during }), jobWith({ failed: 1 }), files);
  assert.is((await ending.settle("w")).status?.build?.state, "Building");
  const ended = cluster(ending.workload("w"), jobWith(late), files);
  assert.is((await ended.settle("w")).status?.build?.reason, "BuildTimeout");
});

test("ensureBuild: a deleted Job whose pod's node is gone does not keep its name for ever", async () => {
  const soon = await begun(fromGit, { minutes: 20, job: { deletionTimestamp: ago(0) } });
  await soon.settle("w");
  assert.equal(soon.deletions, []);
  const waits = await ensureBuild(soon.workload("w"), soon.context);
  assert.ok((waits?.requeueAfterMs ?? 0) >= 15_000, "its end is an event");
  const stuck = await begun(fromGit, { minutes: 20, job: { deletionTimestamp: ago(5) } });
  const [former] = stuck.jobs();
  await stuck.settle("w");
  assert.equal(stuck.deletions, [{ uid: former?.metadata.uid, propagationPolicy: "Background" }]);
  assert.is(stuck.jobs()[0]?.metadata.deletionTimestamp, undefined);
});

test("ensureBuild: what is built costs no request, but for a ConfigMap that may be another", async () => {
  for (const [spec, cost] of [
    [fromGit, []],
    [fromConfigMap, ["get configmaps"]],
  ] as const) {
    const message = `state=Built\ndigest=sha256:${"1".repeat(64)}\nsteps=1\ncached=0\n`;
    const done: ContainerState = { terminated: { exitCode: 0, message, finishedAt: ago(0) } as never };
    const {
      settle,
      requests,
      context,
      workload: present,
    } = await begun(spec, { minutes: 1, pod: states(undefined, done) });
    await settle("w");
    // The Jobs of its former builds are kept.
    for (const key of ["a", "b"]) {
      const { metadata, ...rest } = renderBuildJob(workload(spec), { key: key.repeat(64), tries: 0 }, builds);
      const status = { conditions: [{ type: "Complete", status: "True" as const }] };
      context.informers.builds?.jobs.put({
        ...rest,
        metadata: { ...metadata, uid: key, resourceVersion: "1" },
        status,
      });
    }
    requests.length = 0;
    const again = await ensureBuild(present("w"), context);
    assert.is(again?.build?.state, "Built");
    assert.is(again?.requeueAfterMs, undefined);
    assert.equal(requests, cost);
  }
});

test("ensureBuild: a Job that may not be deleted keeps no workload that names its image", async () => {
  const job = renderBuildJob(workload(fromGit), { key: "k".repeat(64), tries: 0 }, builds);
  const { settle, fail, requests } = cluster(workload({ image: { ref: "x:1" } }), { ...job, kind: "Job" });
  fail("delete jobs", new ApiError("forbidden", { status: 403, reason: "Forbidden" }));
  assert.is((await settle("w")).status?.build, undefined);
  assert.ok(requests.includes("delete jobs"));
});

test("ensureBuild: without rights for a while what is known of a build stays", async () => {
  const before: BuildStatus = { key: "former", state: "Built", digest: `sha256:${"1".repeat(64)}`, steps: 3 };
  const image = `r.example/built/w@${before.digest}`;
  const {
    context,
    fail,
    workload: present,
  } = cluster(workload(fromGit, { status: { phase: "Ready", image, build: before } }));
  fail("get jobs", new ApiError("forbidden", { status: 403, reason: "Forbidden" }));
  const outcome = await ensureBuild(present("w"), context);
  assert.is(outcome?.image, image);
  assert.equal([outcome?.build?.state, outcome?.build?.key, outcome?.build?.steps], ["Failed", "former", 3]);
});

test("leaveWaiting: one that is refused gives its place up unless its build runs", async () => {
  const waits = await begun(fromConfigMap, { minutes: 1 });
  await leaveWaiting(waits.workload("w"), waits.context);
  assert.is(waits.jobs().length, 0);
  const asked = waits.requests.length;
  await leaveWaiting(waits.workload("w"), waits.context);
  assert.is(waits.requests.length, asked, "it is deleted once");
  const runs = await begun(fromConfigMap, { minutes: 1, pod: states(undefined, running) });
  await runs.settle("w");
  await leaveWaiting(runs.workload("w"), runs.context);
  assert.is(runs.jobs().length, 1);
});

test("deleteBuilds: a workload goes when its Jobs are gone, and does not wait for a node that is gone", async () => {
  const young = await begun(fromGit, { minutes: 20, job: { deletionTimestamp: ago(0) } });
  assert.is(await deleteBuilds(young.workload("w"), young.context), false);
  assert.is(countUnderWay(builderContext(young.context) as BuilderContext), 1);
  const stuck = await begun(fromGit, { minutes: 20, job: { deletionTimestamp: ago(5) } });
  assert.is(countUnderWay(builderContext(stuck.context) as BuilderContext), 0);
  assert.is(await deleteBuilds(stuck.workload("w"), stuck.context), true);
  stuck.fail("list jobs", new ApiError("forbidden", { status: 403, reason: "Forbidden" }));
  assert.is(await deleteBuilds(stuck.workload("w"), stuck.context), true);
});

test("deleteContexts: erased behind the reconcile; a person can leave them, and without a registry none were asked for", async () => {
  const named = (value: string) => workload(fromUpload, { annotations: { [annotation.buildContext]: value } });
  const calls: string[] = [];
  const { context, objects } = cluster(workload(fromUpload));
  const answering: BuildContexts["erase"] = async (workload) => void calls.push(workload);
  const withErase = (erase: BuildContexts["erase"], more: object = {}): OperatorContext => ({
    ...context,
    contexts: { ...context.contexts, erase },
    ...more,
  });
  assert.is(deleteContexts(named("left"), withErase(answering)).state, "done");
  const unset = { config: { ...context.config, builds: undefined } };
  assert.is(deleteContexts(workload(fromUpload), withErase(answering, unset)).state, "done");
  assert.equal(calls, []);

  const ended = (erase: BuildContexts["erase"]) =>
    new Promise<ReturnType<typeof deleteContexts>>((resolve) => {
      const own: OperatorContext = withErase(erase, {
        feeds: createBackgroundWork<void>({ concurrency: 2 }),
        enqueueWorkload: () => resolve(deleteContexts(workload(fromUpload), own)),
      });
      assert.is(deleteContexts(workload(fromUpload), own).state, "running");
    });
  assert.is((await ended(answering)).state, "done");
  assert.equal(calls, ["w"]);
  // No volume, nothing on it.
  assert.is((await ended(() => Promise.reject(new Error("no helper pod")))).state, "done");
  objects.set("persistentvolumeclaims tenancy/tenancy-snapshots", { metadata: { name: "tenancy-snapshots" } });
  const failed = await ended(() => Promise.reject(new Error("no helper pod")));
  assert.is(failed.state === "failed" && (failed.error as Error).message, "no helper pod");
});

test("buildWatches: Jobs that had ended before count for nothing and wake nobody but their workload", async () => {
  const { context } = cluster();
  const [jobWatch] = buildWatches(context);
  const { metrics } = context;
  let counted = 0;
  metrics.buildsUnderWay.set = () => {
    counted += 1;
  };
  const job = renderBuildJob(workload(fromGit), { key: "k".repeat(64), tries: 0 }, builds);
  const ended = { ...job, status: { conditions: [{ type: "Complete", status: "True" as const }] } } as Job;
  const keysOf = (change: Parameters<NonNullable<typeof jobWatch>["map"]>[0]) => [...(jobWatch?.map(change) ?? [])];
  assert.equal(keysOf({ type: "added", object: ended } as never), ["tenancy/w"]);
  assert.is(counted, 0);
  assert.equal(keysOf({ type: "added", object: job } as never), ["tenancy/w"]);
  assert.is(counted, 1);
  keysOf({ type: "modified", object: ended, previous: job } as never);
  assert.is(counted, 2);
});

test.run();
