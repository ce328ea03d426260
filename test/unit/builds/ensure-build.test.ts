import { test } from "uvu";
import * as assert from "uvu/assert";
import type { BuildContexts } from "../../../crds/builds/build-contexts.ts";
import { ApiError } from "../../../crds/client/api-error.ts";
import { configMaps, jobs, persistentVolumeClaims, pods } from "../../../crds/client/built-in-resources.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { ConfigMap, ContainerState, Job, Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import type { BuildStatus, Workload } from "../../../crds/workload.ts";
import { createBackgroundWork } from "../../../operator/background-work.ts";
import { type BuilderContext, countUnderWay } from "../../../operator/builds/build-jobs.ts";
import { buildWatches } from "../../../operator/builds/build-watches.ts";
import type { BuildsContext } from "../../../operator/builds/context.ts";
import {
  builderContext,
  deleteBuilds,
  deleteContexts,
  ensureBuild,
  leaveWaiting,
} from "../../../operator/builds/ensure-build.ts";
import { renderBuildJob } from "../../../operator/builds/render-build.ts";
import { type BuildConfig, operatorConfig } from "../../../operator/config.ts";
import { type TestOperator, testOperator } from "../operator/test-operator.ts";

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

interface Cluster extends TestOperator {
  /** Reconciles one workload until its status and the Jobs stay as they are, as events would. */
  settle(name: string): Promise<Workload>;
  workload(name: string): Workload;
}

/** What was asked of the API server, as `get jobs`; and options of what was deleted. */
const requests = ({ api }: Pick<Cluster, "api">) => api.calls.map(({ verb, kind }) => `${verb} ${kind}`);
const deletions = ({ api }: Cluster) => api.calls.flatMap(({ verb, body }) => (verb === "delete" ? [body] : []));

const noHelper = (): Promise<never> => Promise.reject(new Error("the helper pod does not run"));

function cluster(given?: Workload, ...builds: Job[]): Cluster {
  const operator = testOperator({
    ...{ env: { TENANCY_NAMESPACE: NAMESPACE, TENANCY_REGISTRY: "r.example/built" }, exec: noHelper },
    contexts: { erase: noHelper },
  });
  const { api, context } = operator;
  api.now = Date.now;
  api.add(configMaps, files);
  if (given !== undefined) api.add(workloads, given);
  for (const job of builds) api.add(jobs, job);
  return {
    ...operator,
    workload: (name) => api.read(workloads, name),
    async settle(name) {
      const shown = () => JSON.stringify([api.read(workloads, name).status, api.all(jobs)]);
      for (let runs = 0; runs < 10; runs += 1) {
        const before = shown();
        const present = api.read(workloads, name);
        const { image, build } = (await ensureBuild(present, context)) ?? {};
        api.add(workloads, {
          ...present,
          status: { ...present.status, image, build } as Workload["status"],
        } as Workload);
        // What a feed does comes back by an event.
        await new Promise((resolve) => setImmediate(resolve));
        if (shown() === before) return present;
      }
      throw new Error(`its status is another each time: ${shown()}`);
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
  const first = cluster(workload(spec));
  const { status } = await first.settle("w");
  const { status: jobStatus, ...metadata } = job;
  const [made] = first.api.all(jobs);
  assert.ok(made);
  const then = cluster(workload(spec, { status }), {
    ...made,
    metadata: { ...made.metadata, creationTimestamp: ago(minutes), ...metadata },
    ...(jobStatus !== undefined && { status: jobStatus }),
  });
  const owner = { apiVersion: "batch/v1", kind: "Job", name: made.metadata.name, uid: made.metadata.uid ?? "" };
  if (pod !== undefined)
    then.api.add(pods, {
      metadata: {
        ...{ name: "p", namespace: builds.namespace, ownerReferences: [owner] },
        labels: { [label.build]: "true", [label.workload]: "w" },
      },
      spec: { containers: [] },
      status: pod,
    });
  return then;
}

const states = (context?: ContainerState, build?: ContainerState, more: Partial<Pod["status"]> = {}): Pod["status"] => {
  const shown = (name: string, state: ContainerState | undefined) =>
    state === undefined ? [] : [{ name, image: "b:1", imageID: "", ready: false, restartCount: 0, state }];
  return { ...more, initContainerStatuses: shown("context", context), containerStatuses: shown("build", build) };
};
const creating: ContainerState = { waiting: { reason: "PodInitializing" } };

test("ensureBuild: a context that took longer than a start may is no pod that does not start", async () => {
  const fetched: ContainerState = { terminated: { exitCode: 0, reason: "Completed" } as never };
  const { settle, api } = await begun(fromGit, { minutes: 10, pod: states(fetched, creating) });
  const { status } = await settle("w");
  assert.equal([status?.build?.state, status?.build?.message, api.all(jobs).length], ["Building", undefined, 1]);
});

test("ensureBuild: a pod that does not start gives its place up; one whose image is being pulled keeps it", async () => {
  const stuck = await begun(fromGit, { minutes: 10, pod: states(creating) });
  const { status } = await stuck.settle("w");
  assert.is(status?.build?.reason, "BuilderUnavailable");
  assert.match(status?.build?.message ?? "", /did not start within 300 s: its pod does not start.*tried again after/);
  assert.is(stuck.api.all(jobs).length, 0);
  const hasSandbox = [{ type: "PodReadyToStartContainers", status: "True" as const }];
  const pulling = await begun(fromGit, { minutes: 10, pod: states(creating, undefined, { conditions: hasSandbox }) });
  assert.is((await pulling.settle("w")).status?.build?.state, "Building");
  assert.is(pulling.api.all(jobs).length, 1);
});

test("ensureBuild: a context that cannot be brought for long gives its place up", async () => {
  const young = await begun(fromConfigMap, { minutes: 1, pod: states(running) });
  assert.is((await young.settle("w")).status?.build?.state, "Building");
  const old = await begun(fromConfigMap, { minutes: 10, pod: states(running) });
  await old.settle("w");
  const { status } = await old.settle("w");
  assert.is(status?.build?.reason, "BuilderUnavailable");
  assert.match(status?.build?.message ?? "", "could not be sent: the helper pod does not run");
  assert.is(old.api.all(jobs).length, 0);
});

test("ensureBuild: a Job that is refused is asked for again after a pause, and not at each run", async () => {
  const { settle, api } = cluster(workload(fromGit));
  const asked = () => requests({ api }).filter((request) => request === "create jobs").length;
  api.onEvery("create", new ApiError("refused", { status: 403, reason: "Forbidden" }), jobs);
  const { status } = await settle("w");
  assert.equal([status?.build?.reason, status?.build?.tries], ["BuilderUnavailable", 1]);
  assert.match(status?.build?.message ?? "", /the cluster refuses.*tried again after/);
  assert.is(asked(), 1);
  api.onEvery("create", new ApiError("refused otherwise", { status: 403, reason: "Forbidden" }), jobs);
  for (let runs = 0; runs < 5; runs += 1) await settle("w");
  assert.is(asked(), 1);
});

test("ensureBuild: of a build that never ran its deadline is no fault; of one that ran it is", async () => {
  const late = {
    conditions: [{ type: "Failed", status: "True" as const, reason: "DeadlineExceeded", lastTransitionTime: ago(1) }],
    failed: 1,
  };
  const away = await begun(fromConfigMap, { minutes: 31, job: { status: late } });
  const { status } = await away.settle("w");
  assert.equal([status?.build?.state, status?.build?.tries], ["Building", 1], "it is tried again");

  const ran = await begun(fromConfigMap, { minutes: 29, pod: states(undefined, running) });
  const { status: during } = await ran.settle("w");
  assert.is(during?.build?.message, undefined);
  const [job] = ran.api.all(jobs);
  // Its pod goes before it is said to have failed.
  const jobWith = (jobStatus: Job["status"]) => ({ ...job, kind: "Job", status: jobStatus }) as Job;
  const ending = cluster(workload(fromConfigMap, { status: during }), jobWith({ failed: 1 }));
  assert.is((await ending.settle("w")).status?.build?.state, "Building");
  const ended = cluster(ending.workload("w"), jobWith(late));
  assert.is((await ended.settle("w")).status?.build?.reason, "BuildTimeout");
});

test("ensureBuild: a deleted Job whose pod's node is gone does not keep its name for ever", async () => {
  const soon = await begun(fromGit, { minutes: 20, job: { deletionTimestamp: ago(0) } });
  await soon.settle("w");
  assert.equal(deletions(soon), []);
  const waits = await ensureBuild(soon.workload("w"), soon.context);
  assert.ok((waits?.requeueAfterMs ?? 0) >= 15_000, "its end is an event");
  const stuck = await begun(fromGit, { minutes: 20, job: { deletionTimestamp: ago(5) } });
  const [former] = stuck.api.all(jobs);
  await stuck.settle("w");
  assert.equal(deletions(stuck), [{ uid: former?.metadata.uid, propagationPolicy: "Background" }]);
  assert.is(stuck.api.all(jobs)[0]?.metadata.deletionTimestamp, undefined);
});

test("ensureBuild: what is built costs no request, but for a ConfigMap that may be another", async () => {
  for (const [spec, cost] of [
    [fromGit, []],
    [fromConfigMap, ["get configmaps"]],
  ] as const) {
    const message = `state=Built\ndigest=sha256:${"1".repeat(64)}\nsteps=1\ncached=0\n`;
    const done: ContainerState = { terminated: { exitCode: 0, message, finishedAt: ago(0) } as never };
    const { settle, api, context, workload: present } = await begun(spec, { minutes: 1, pod: states(undefined, done) });
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
    api.calls.length = 0;
    const again = await ensureBuild(present("w"), context);
    assert.is(again?.build?.state, "Built");
    assert.is(again?.requeueAfterMs, undefined);
    assert.equal(requests({ api }), cost);
  }
});

test("ensureBuild: a build that is not asked for any longer is ended", async () => {
  const { api, settle, workload: present } = await begun(fromGit, { minutes: 1 });
  const [former] = api.all(jobs);
  const image = { dockerfile: "Dockerfile", context: { git: { url: "https://git.example/y" } } };
  api.add(workloads, { ...present("w"), spec: { image } });
  await settle("w");
  assert.is(api.all(jobs).length, 1);
  assert.is.not(api.all(jobs)[0]?.metadata.uid, former?.metadata.uid);
});

test("ensureBuild: a Job that may not be deleted keeps no workload that names its image", async () => {
  const job = renderBuildJob(workload(fromGit), { key: "k".repeat(64), tries: 0 }, builds);
  const { settle, api } = cluster(workload({ image: { ref: "x:1" } }), job);
  api.onEvery("delete", new ApiError("forbidden", { status: 403, reason: "Forbidden" }), jobs);
  assert.is((await settle("w")).status?.build, undefined);
  assert.ok(requests({ api }).includes("delete jobs"));
});

test("ensureBuild: without rights for a while what is known of a build stays", async () => {
  const before: BuildStatus = { key: "former", state: "Built", digest: `sha256:${"1".repeat(64)}`, steps: 3 };
  const image = `r.example/built/w@${before.digest}`;
  const {
    context,
    api,
    workload: present,
  } = cluster(workload(fromGit, { status: { phase: "Ready", image, build: before } }));
  api.onEvery("get", new ApiError("forbidden", { status: 403, reason: "Forbidden" }), jobs);
  const outcome = await ensureBuild(present("w"), context);
  assert.is(outcome?.image, image);
  assert.equal([outcome?.build?.state, outcome?.build?.key, outcome?.build?.steps], ["Failed", "former", 3]);
});

test("leaveWaiting: one that is refused gives its place up unless its build runs", async () => {
  const waits = await begun(fromConfigMap, { minutes: 1 });
  await leaveWaiting(waits.workload("w"), waits.context);
  assert.is(waits.api.all(jobs).length, 0);
  const asked = waits.api.calls.length;
  await leaveWaiting(waits.workload("w"), waits.context);
  assert.is(waits.api.calls.length, asked, "it is deleted once");
  const runs = await begun(fromConfigMap, { minutes: 1, pod: states(undefined, running) });
  await runs.settle("w");
  await leaveWaiting(runs.workload("w"), runs.context);
  assert.is(runs.api.all(jobs).length, 1);
});

test("deleteBuilds: a workload goes when its Jobs are gone, and does not wait for a node that is gone", async () => {
  const young = await begun(fromGit, { minutes: 20, job: { deletionTimestamp: ago(0) } });
  assert.is(await deleteBuilds(young.workload("w"), young.context), false);
  assert.is(countUnderWay(builderContext(young.context) as BuilderContext), 1);
  const stuck = await begun(fromGit, { minutes: 20, job: { deletionTimestamp: ago(5) } });
  assert.is(countUnderWay(builderContext(stuck.context) as BuilderContext), 0);
  assert.is(await deleteBuilds(stuck.workload("w"), stuck.context), true);
  stuck.api.onEvery("list", new ApiError("forbidden", { status: 403, reason: "Forbidden" }), jobs);
  assert.is(await deleteBuilds(stuck.workload("w"), stuck.context), true);
});

test("deleteContexts: erased behind the reconcile; a person can leave them, and without a registry none were asked for", async () => {
  const named = (value: string) => workload(fromUpload, { annotations: { [annotation.buildContext]: value } });
  const calls: string[] = [];
  const { context, api } = cluster(workload(fromUpload));
  const answering: BuildContexts["erase"] = async (workload) => void calls.push(workload);
  const withErase = (erase: BuildContexts["erase"], more: object = {}): BuildsContext => ({
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
      const own: BuildsContext = withErase(erase, {
        feeds: createBackgroundWork<void>({ concurrency: 2 }),
        enqueueWorkload: () => resolve(deleteContexts(workload(fromUpload), own)),
      });
      assert.is(deleteContexts(workload(fromUpload), own).state, "running");
    });
  assert.is((await ended(answering)).state, "done");
  assert.equal(calls, ["w"]);
  // No volume, nothing on it.
  assert.is((await ended(() => Promise.reject(new Error("no helper pod")))).state, "done");
  api.add(persistentVolumeClaims, { metadata: { name: "tenancy-snapshots" }, spec: {} });
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
