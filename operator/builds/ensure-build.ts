import { isDeepStrictEqual } from "node:util";
import { ApiError } from "../../crds/client/api-error.ts";
import { jobs, pods } from "../../crds/client/built-in-resources.ts";
import { workloads } from "../../crds/kinds.ts";
import type { Job, Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
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
  jobNameOf,
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
/** A pod whose images are there starts within this. */
const SLOW_MS = 60_000;
/** One that has not started after this gives its place to another. */
const START_LIMIT_MS = 300_000;
/** What a build says that does not run yet. Whatever message it has tells so, when its time is over. */
const NOT_BEGUN = "its pod is being started, and given its build context";
/** The value of the annotation on build contexts that has them outlive their workload. */
const LEFT = "left";

/**
 * Brings the image of a workload to what its spec, its build context and its annotations say: begins a build, follows
 * it, and says how it stands. What is known to be built, or to fail, is not built again.
 *
 * @returns undefined when the workload is another than the store has: its event starts the next run
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

/** Ends what was to build the image of a workload that names one now. */
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
 * @returns false when the workload is another than the store has
 */
async function tidy(workload: Workload, key: string | undefined, context: BuilderContext): Promise<boolean> {
  const old = [...oldJobs(workload, key, context), ...waitingJobs(workload, key, context)];
  if (old.length === 0) return true;
  if (!(await isCurrent(workload, context))) return false;
  try {
    for (const job of old) await deleteJob(job, context);
  } catch (error) {
    // Whoever took its rights away keeps them; the workload goes on.
    if (!isForbidden(error)) throw error;
  }
  return true;
}

/**
 * Ends a build of a workload that is refused, where it does not run yet: nobody brings its context, and it would keep
 * the place of another until its time is over.
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
    // Whoever took its rights away, or the namespace of builds with them, wants none there.
    if (isForbidden(error)) return true;
    throw error;
  }
}

/**
 * Deletes what was ever uploaded to build the image of a workload that is being deleted, in the background, since the
 * volume may not answer: a first call begins it, and a later one says how it stands.
 */
export function deleteContexts(workload: Workload, context: BuildsContext): WorkState<void> {
  const { config, contexts, feeds } = context;
  const { name, uid = "", annotations } = workload.metadata;
  const { dockerfile, context: from } = workload.spec.image;
  const named = annotations?.[annotation.buildContext];
  // An upload that was kept may not have been named any more.
  const takesUploads = config.builds !== undefined && dockerfile !== undefined && from === undefined;
  const mayHave = named === undefined ? takesUploads : named !== LEFT;
  if (!mayHave) return { state: "done", value: undefined };
  const erase = async (signal: AbortSignal) => {
    try {
      await contexts.erase(name, { signal, timeoutMs: ERASE_LIMIT_MS });
    } catch (error) {
      // Where there is no volume there is nothing on it.
      if (config.snapshots.store.place.kind !== "volume" || (await hasVolume(context))) throw error;
    }
  };
  const work = feeds.run(`contexts of ${uid}`, erase, () => context.enqueueWorkload(name), "contexts");
  if (work.state === "done") feeds.forget(`contexts of ${uid}`);
  return work;
}

/** The context with what builds take; undefined without a registry. */
export function builderContext(context: BuildsContext): BuilderContext | undefined {
  const { builds } = context.config;
  const buildInformers = context.informers.builds;
  return builds === undefined || buildInformers === undefined ? undefined : { ...context, builds, buildInformers };
}

function isForbidden(error: unknown): boolean {
  return error instanceof ApiError && error.status === 403;
}

/** Takes the build one step further, by what the API server has of it. */
async function bringForward(wanted: WantedBuild, context: BuilderContext): Promise<BuildOutcome> {
  const { workload, key } = wanted;
  const jobName = jobNameOf(workload, key);
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
  // One that failed before goes behind those that wait for their first turn.
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
      const message = `${context.builds.concurrency} builds are under way: it waits for its turn (TENANCY_BUILD_CONCURRENCY)`;
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

/** The name is a digest of the key and of the workload's name: only a workload of the same name can have taken it. */
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
      // At its deadline the pod goes first: what was said of it counts.
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

/** A build that does not begin would keep its place until its time is over, and others that could begin would wait. */
function lateStart(job: Job, message: string | undefined, context: BuilderContext): BuildRecord | undefined {
  const { builds } = context;
  const limitMs = Math.min(START_LIMIT_MS, builds.timeoutMs);
  if (message === undefined || ageOf(job, context) <= limitMs) return undefined;
  return {
    state: "Failed",
    reason: "BuilderUnavailable",
    isLeft: true,
    finishedAt: isoNow(context),
    message: `it did not begin within ${limitMs / 1000} s: ${message}`,
  };
}

function isoNow({ serverNow }: BuilderContext): string {
  return new Date(serverNow()).toISOString();
}

function ageOf({ metadata }: Job, { serverNow }: BuilderContext): number {
  return serverNow() - Date.parse(metadata.creationTimestamp ?? "");
}

/** What only Events tell: a quota, an admission policy, a Secret that is not there. */
function whySlow(job: Job, pod: Pod | undefined, context: BuilderContext): string | undefined {
  const { builds } = context;
  if (!(ageOf(job, context) >= SLOW_MS)) return undefined;
  const describe = `kubectl -n ${builds.namespace} describe`;
  if (pod === undefined) return `no pod was made for it: "${describe} job ${job.metadata.name}" says why`;
  return `its pod does not start: "${describe} pod ${pod.metadata.name}" says why`;
}

/**
 * Whether all that its pod takes is there but the image,
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-has-network.
 */
function isPulling(pod: Pod | undefined): boolean {
  const { conditions = [] } = pod?.status ?? {};
  return conditions.some(({ type, status }) => type === "PodReadyToStartContainers" && status === "True");
}

/** That its time was over before it ran is no fault of its steps, and may mend itself. */
function unlessBegun(record: BuildRecord, before: BuildStatus | undefined): BuildRecord {
  if (record.state !== "Failed" || record.reason !== "BuildTimeout") return record;
  if (before?.state !== "Building" || before.message === undefined) return record;
  return { ...record, reason: "BuilderUnavailable", message: `it did not begin in its time: ${before.message}` };
}

/** The pod of this very Job, as the API server has it. */
async function findPod(job: Job, { builds, cluster }: BuilderContext): Promise<Pod | undefined> {
  const labelSelector = `${label.build}=true,${label.workload}=${job.metadata.labels?.[label.workload]}`;
  const { items } = await cluster(pods).in(builds.namespace).list({ labelSelector });
  return items
    .filter(({ metadata }) => metadata.ownerReferences?.some(({ uid }) => uid === job.metadata.uid))
    .sort((a, b) => ((a.metadata.creationTimestamp ?? "") < (b.metadata.creationTimestamp ?? "") ? 1 : -1))[0];
}

/** Whether the status says how this very build ended, for good. */
function isSettled({ metadata, status }: Workload, key: string, { builds }: BuilderContext): boolean {
  const { build, image } = status ?? {};
  if (build?.key !== key) return false;
  if (build.state === "Built") return image === `${builtImage(metadata.name, builds)}@${build.digest}`;
  return build.state === "Failed" && isLasting(build.reason);
}

/** The Job of a build whose context was refused: its pod would wait for it. */
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

/** Whether the API server has the workload as the store does, as far as its build goes. */
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
