import { isDeepStrictEqual } from "node:util";
import { ApiError } from "../../crds/client/api-error.ts";
import { jobs, pods } from "../../crds/client/built-in-resources.ts";
import { workloads } from "../../crds/kinds.ts";
import type { Job, Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { buildJobName } from "../../crds/names.ts";
import type { BuildStatus, Workload } from "../../crds/workload.ts";
import type { WorkState } from "../background-work.ts";
import { hasVolume } from "../snapshots/has-store.ts";
import { findBuildContext } from "./build-context.ts";
import {
  type BuilderContext,
  beginBuild,
  deleteAllJobs,
  deleteJob,
  holdBuildsPolicy,
  isJobOf,
  oldJobs,
  refusal,
} from "./build-jobs.ts";
import { buildProgress, hadPod, isFinished } from "./build-progress.ts";
import { type BuildRecord, isLasting, recordOf } from "./build-result.ts";
import type { BuildsContext } from "./context.ts";
import {
  type BuildOutcome,
  endBuild,
  retryInMs,
  statusOf,
  takeRecord,
  triesOf,
  type WantedBuild,
  withRetry,
} from "./end-build.ts";
import { feedBuild } from "./feed-context.ts";
import { builtImage } from "./render-build.ts";

const ERASE_LIMIT_MS = 60_000;
/** Backstop: poll, in case an event is missed. */
const LOOK_AGAIN_MS = 15_000;
const SOON_MS = 1000;
/** A pod whose images are on the node starts within this time. */
const SLOW_MS = 60_000;
/** A build that has not started after this time gives its slot to another one. */
const START_LIMIT_MS = 300_000;
/** The message of a build that does not run yet. At its deadline, any message shows that it never ran. */
const NOT_BEGUN = "its pod is starting and getting its build context";
/** The value of the build-context annotation with which contexts outlive their workload. */
const LEFT = "left";

/**
 * Builds the image of a workload according to its spec, its build context and its annotations: begins a build, follows
 * it, and returns its state. A build with a known result does not run again.
 *
 * @returns undefined if the cached workload is stale: its event starts the next run
 */
export async function ensureBuild(workload: Workload, given: BuildsContext): Promise<BuildOutcome | undefined> {
  const context = builderContext(given);
  if (context === undefined) return { image: undefined, build: undefined };
  const isBuilt = workload.spec.image.dockerfile !== undefined;
  try {
    return isBuilt ? await bring(workload, context) : await leave(workload, context);
  } catch (error) {
    const message = refusal(error, { name: workload.metadata.name, builds: context.builds });
    if (message === undefined || !isBuilt || !isForbidden(error)) throw error;
    const build: BuildStatus = { ...workload.status?.build, state: "Failed", reason: "BuilderUnavailable", message };
    return { image: workload.status?.image, build, requeueAfterMs: SLOW_MS };
  }
}

/** Ends the builds of a workload that now names an image. */
async function leave(workload: Workload, context: BuilderContext): Promise<BuildOutcome | undefined> {
  return (await tidy(workload, undefined, context)) ? { image: undefined, build: undefined } : undefined;
}

async function bring(workload: Workload, context: BuilderContext): Promise<BuildOutcome | undefined> {
  const { image, build } = workload.status ?? {};
  const { context: found, key } = await findBuildContext(workload, context);
  if (found.kind === "missing" || key === undefined) {
    if (!(await tidy(workload, undefined, context))) return undefined;
    const message = found.kind === "missing" ? found.message : "";
    return { image, build: { state: "Failed", reason: "ContextMissing", message } };
  }
  if (isSettled(workload, key, context)) {
    return (await tidy(workload, key, context)) ? { image, build } : undefined;
  }
  if (!(await isCurrent(workload, context))) return undefined;
  for (const job of oldJobs(workload, key, context)) await deleteJob(job, context);
  return bringForward({ workload, key, found }, context);
}

/**
 * Deletes the Jobs that a workload does not need.
 *
 * @returns false if the cached workload is stale
 */
async function tidy(workload: Workload, key: string | undefined, context: BuilderContext): Promise<boolean> {
  const old = [...oldJobs(workload, key, context), ...waitingJobs(workload, key, context)];
  if (old.length === 0) return true;
  if (!(await isCurrent(workload, context))) return false;
  try {
    for (const job of old) await deleteJob(job, context);
  } catch (error) {
    // Without the right to delete them, the Jobs stay. The workload is not affected.
    if (!isForbidden(error)) throw error;
  }
  return true;
}

/**
 * Ends a build of a refused workload, if the build does not run yet: its context will not come, and it would take the
 * slot of another build until its deadline.
 */
export async function leaveWaiting(workload: Workload, given: BuildsContext): Promise<void> {
  const context = builderContext(given);
  const { build } = workload.status ?? {};
  const isWaiting = build?.state === "Building" && build.message !== undefined;
  if (context !== undefined && isWaiting) await tidy(workload, undefined, context);
}

/**
 * Deletes the Jobs of a workload that is being deleted.
 *
 * @returns whether they are gone
 */
export async function deleteBuilds(workload: Workload, given: BuildsContext): Promise<boolean> {
  const context = builderContext(given);
  try {
    return context === undefined || (await deleteAllJobs(workload, context));
  } catch (error) {
    // The operator's rights, or the namespace of builds, were removed on purpose: there is nothing to wait for.
    if (isForbidden(error)) return true;
    throw error;
  }
}

/**
 * Deletes all uploaded build contexts of a workload that is being deleted. It runs in the background, since the volume
 * may not answer: the first call begins it, and later calls return its state.
 */
export function deleteContexts(workload: Workload, context: BuildsContext): WorkState<void> {
  const { config, contexts, feeds } = context;
  const { name, uid = "", annotations } = workload.metadata;
  const { dockerfile, context: from } = workload.spec.image;
  const named = annotations?.[annotation.buildContext];
  // A stored upload may have no annotation that names it.
  const takesUploads = config.builds !== undefined && dockerfile !== undefined && from === undefined;
  const mayHave = named === undefined ? takesUploads : named !== LEFT;
  if (!mayHave) return { state: "done", value: undefined };
  const erase = async (signal: AbortSignal) => {
    try {
      await contexts.erase(name, { signal, timeoutMs: ERASE_LIMIT_MS });
    } catch (error) {
      // Without a volume there are no contexts.
      if (config.snapshots.store.place.kind !== "volume" || (await hasVolume(context))) throw error;
    }
  };
  const work = feeds.run(`contexts of ${uid}`, erase, () => context.enqueueWorkload(name), "contexts");
  if (work.state === "done") feeds.forget(`contexts of ${uid}`);
  return work;
}

/** The context of a builder; undefined without a registry. */
export function builderContext(context: BuildsContext): BuilderContext | undefined {
  const { builds } = context.config;
  const buildInformers = context.informers.builds;
  return builds === undefined || buildInformers === undefined ? undefined : { ...context, builds, buildInformers };
}

function isForbidden(error: unknown): boolean {
  return error instanceof ApiError && error.status === 403;
}

/** Takes the build one step further, by the API server's present state of it. */
async function bringForward(wanted: WantedBuild, context: BuilderContext): Promise<BuildOutcome> {
  const { workload, key } = wanted;
  const jobName = buildJobName(workload.metadata.name, key);
  const job = await context.cluster(jobs).in(context.builds.namespace).named(jobName).find({ refresh: true });
  if (job === undefined) return begin(wanted, context);
  if (!isJobOf(job, { workload, key })) return makeRoom(wanted, job, context);
  if (job.metadata.deletionTimestamp !== undefined) {
    await deleteJob(job, context);
    return waitForRoom(wanted, context);
  }
  if (!isFinished(job, context.serverNow())) await holdBuildsPolicy(context);
  const record = recordOf(job);
  return record === undefined ? follow(wanted, job, context) : takeRecord(wanted, { job, record }, context);
}

async function begin(wanted: WantedBuild, context: BuilderContext): Promise<BuildOutcome> {
  const { workload, key } = wanted;
  const { image } = workload.status ?? {};
  const before = statusOf(wanted);
  const { tries = 0 } = before ?? {};
  const waitMs = retryInMs(before, context.serverNow());
  if (before !== undefined && waitMs > 0) return { image, build: before, requeueAfterMs: waitMs };
  // A build that failed before goes behind those that wait for their first try.
  const keepsPlace = tries === 0 || before?.finishedAt === undefined;
  const requestedAt = (keepsPlace ? before?.requestedAt : undefined) ?? isoNow(context);
  const begun = await beginBuild(workload, { key, tries, requestedAt }, context);
  const asked = { key, requestedAt, ...(tries > 0 && { tries }) };
  switch (begun.state) {
    case "begun": {
      context.log.info({ workload: workload.metadata.name, job: begun.job.metadata.name, tries }, "build began");
      return {
        image,
        build: {
          ...{ ...asked, state: "Building", message: NOT_BEGUN },
          startedAt: begun.job.metadata.creationTimestamp ?? requestedAt,
        },
      };
    }
    case "queued": {
      const message = `${context.builds.concurrency} builds are running: it waits for its turn (TENANCY_BUILD_CONCURRENCY)`;
      return { image, build: { ...asked, state: "Pending", reason: "Queued", message }, requeueAfterMs: LOOK_AGAIN_MS };
    }
    case "taken":
      return { image, build: { ...asked, state: "Pending" }, requeueAfterMs: SOON_MS };
    case "refused": {
      const now = { finishedAt: isoNow(context), tries: tries + 1 };
      const build = withRetry({ ...asked, ...now, state: "Failed", reason: "BuilderUnavailable" }, begun.message);
      return { image, build, requeueAfterMs: retryInMs(build, context.serverNow()) };
    }
    default:
      return begun satisfies never;
  }
}

/**
 * The Job's name exists. It is a digest of the key and of the workload's name, so a workload of that name has used it.
 */
async function makeRoom(wanted: WantedBuild, job: Job, context: BuilderContext): Promise<BuildOutcome> {
  if (job.metadata.labels?.[label.build] === "true") {
    await deleteJob(job, context);
    return waitForRoom(wanted, context);
  }
  const message = `Job "${job.metadata.name}" in namespace "${context.builds.namespace}" is not the operator's: delete it`;
  const { key, workload } = wanted;
  const build: BuildStatus = { ...statusOf(wanted), key, state: "Failed", reason: "BuilderUnavailable", message };
  return { image: workload.status?.image, build, requeueAfterMs: LOOK_AGAIN_MS };
}

function waitForRoom(wanted: WantedBuild, context: BuilderContext): BuildOutcome {
  const { key, workload } = wanted;
  const build: BuildStatus = statusOf(wanted) ?? { key, state: "Pending", requestedAt: isoNow(context) };
  return { image: workload.status?.image, build, requeueAfterMs: LOOK_AGAIN_MS };
}

async function follow(wanted: WantedBuild, job: Job, context: BuilderContext): Promise<BuildOutcome> {
  const { workload, key, found } = wanted;
  const { builds } = context;
  const { image } = workload.status ?? {};
  const pod = await findPod(job, context);
  const progress = buildProgress({ job, pod, isFromGit: found.kind === "git", now: context.serverNow() }, builds);
  const begunAt = job.metadata.creationTimestamp ?? isoNow(context);
  const tries = triesOf(job);
  const building: BuildStatus = {
    ...{ key, state: "Building", startedAt: begunAt },
    requestedAt: statusOf(wanted)?.requestedAt ?? begunAt,
    ...(tries > 0 && { tries }),
  };
  switch (progress.state) {
    case "building":
      return { image, build: building, requeueAfterMs: LOOK_AGAIN_MS };
    case "waiting": {
      // At the deadline, the pod is deleted first. Keep the message that it had.
      if (pod === undefined && hadPod(job)) {
        const said = statusOf(wanted)?.message;
        const build = { ...building, ...(said !== undefined && { message: said }) };
        return { image, build, requeueAfterMs: LOOK_AGAIN_MS };
      }
      const problem = progress.message ?? whySlow(job, pod, context);
      const mayStart = progress.message === undefined && isPulling(pod);
      const late = mayStart ? undefined : lateStart(job, problem, context);
      if (late !== undefined) return endBuild(wanted, { job, record: late }, context);
      return { image, build: { ...building, message: problem ?? NOT_BEGUN }, requeueAfterMs: LOOK_AGAIN_MS };
    }
    case "needs-context": {
      const fed = feedBuild({ workload, found, pod: progress.pod }, context);
      if (fed.state === "ended") return endBuild(wanted, { job, record: fed.record }, context);
      const { message, requeueAfterMs } = fed;
      const late = lateStart(job, message, context);
      if (late !== undefined) return endBuild(wanted, { job, record: late }, context);
      return { image, build: { ...building, message: message ?? NOT_BEGUN }, requeueAfterMs };
    }
    case "ended":
      return endBuild(wanted, { job, record: unlessBegun(progress.record, statusOf(wanted)) }, context);
    default:
      return progress satisfies never;
  }
}

/** A build that does not start would keep its slot until its deadline, while others could run. */
function lateStart(job: Job, message: string | undefined, context: BuilderContext): BuildRecord | undefined {
  const { builds } = context;
  const limitMs = Math.min(START_LIMIT_MS, builds.timeoutMs);
  if (message === undefined || ageOf(job, context) <= limitMs) return undefined;
  return {
    state: "Failed",
    reason: "BuilderUnavailable",
    isLeft: true,
    finishedAt: isoNow(context),
    message: `it did not start within ${limitMs / 1000} s: ${message}`,
  };
}

function isoNow({ serverNow }: BuilderContext): string {
  return new Date(serverNow()).toISOString();
}

function ageOf({ metadata }: Job, { serverNow }: BuilderContext): number {
  return serverNow() - Date.parse(metadata.creationTimestamp ?? "");
}

/** Where to look if only Events show the cause: a quota, an admission policy, a missing Secret. */
function whySlow(job: Job, pod: Pod | undefined, context: BuilderContext): string | undefined {
  const { builds } = context;
  if (!(ageOf(job, context) >= SLOW_MS)) return undefined;
  const describe = `kubectl -n ${builds.namespace} describe`;
  if (pod === undefined) return `no pod was created for it: see "${describe} job ${job.metadata.name}"`;
  return `its pod does not start: see "${describe} pod ${pod.metadata.name}"`;
}

/**
 * Whether the pod lacks only its image,
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-has-network.
 */
function isPulling(pod: Pod | undefined): boolean {
  const { conditions = [] } = pod?.status ?? {};
  return conditions.some(({ type, status }) => type === "PodReadyToStartContainers" && status === "True");
}

/** If the deadline passed before the build ran, its steps are not the cause, and a retry may help. */
function unlessBegun(record: BuildRecord, before: BuildStatus | undefined): BuildRecord {
  if (record.state !== "Failed" || record.reason !== "BuildTimeout") return record;
  if (before?.state !== "Building" || before.message === undefined) return record;
  return {
    ...record,
    reason: "BuilderUnavailable",
    message: `it did not start before its deadline: ${before.message}`,
  };
}

/** The newest pod of this Job, read from the API server. */
async function findPod(job: Job, { builds, cluster }: BuilderContext): Promise<Pod | undefined> {
  const labelSelector = `${label.build}=true,${label.workload}=${job.metadata.labels?.[label.workload]}`;
  const { items } = await cluster(pods).in(builds.namespace).list({ labelSelector });
  return items
    .filter(({ metadata }) => metadata.ownerReferences?.some(({ uid }) => uid === job.metadata.uid))
    .sort((a, b) => ((a.metadata.creationTimestamp ?? "") < (b.metadata.creationTimestamp ?? "") ? 1 : -1))[0];
}

/** Whether the status has the final result of this build. */
function isSettled({ metadata, status }: Workload, key: string, { builds }: BuilderContext): boolean {
  const { build, image } = status ?? {};
  if (build?.key !== key) return false;
  if (build.state === "Built") return image === `${builtImage(metadata.name, builds)}@${build.digest}`;
  return build.state === "Failed" && isLasting(build.reason);
}

/** The Job of a build whose context was refused: its pod would wait for the context. */
function waitingJobs(
  workload: Workload,
  key: string | undefined,
  { buildInformers, serverNow }: BuilderContext,
): Job[] {
  if (key === undefined || workload.status?.build?.reason !== "ContextRefused") return [];
  return [...buildInformers.jobs.store.by("workload", workload.metadata.name)].filter(
    (job) => isJobOf(job, { workload, key }) && !isFinished(job, serverNow()),
  );
}

/** Whether the cached workload is the newest in all that its build depends on. */
async function isCurrent(workload: Workload, { cluster }: BuilderContext): Promise<boolean> {
  const present = await cluster(workloads).of(workload).find({ refresh: true });
  if (present === undefined) return false;
  const read = ({ metadata, spec, status }: Workload) => ({
    ...{ uid: metadata.uid, deleted: metadata.deletionTimestamp, image: spec.image, build: status?.build },
    context: metadata.annotations?.[annotation.buildContext],
    rebuild: metadata.annotations?.[annotation.rebuild],
  });
  return isDeepStrictEqual(read(present), read(workload));
}
