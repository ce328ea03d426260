import { jobs } from "../../crds/client/built-in-resources.ts";
import { workloads } from "../../crds/kinds.ts";
import type { Job } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import type { ConditionNow } from "../../crds/schema/condition.ts";
import type { BuildStatus, Workload } from "../../crds/workload.ts";
import type { BuildContext } from "./build-context.ts";
import { type BuilderContext, deleteJob } from "./build-jobs.ts";
import { isFinished } from "./build-progress.ts";
import { type BuildRecord, isLasting } from "./build-result.ts";
import type { BuildsContext } from "./context.ts";
import { builtImage } from "./render-build.ts";

/** The present state of a workload's image. */
export interface BuildOutcome {
  /**
   * The image that its pods run: of this build, or until it has ended of the previous one; undefined if there is none.
   */
  readonly image: string | undefined;
  /** Undefined if the image is not built here. */
  readonly build: BuildStatus | undefined;
  /** When to look again, in milliseconds. */
  readonly requeueAfterMs?: number | undefined;
}

/** A build that a workload needs now. */
export interface WantedBuild {
  readonly workload: Workload;
  readonly key: string;
  readonly found: BuildContext;
}

const FIRST_RETRY_MS = 10_000;
const LAST_RETRY_MS = 600_000;
/** After so many lost pods, the build counts as failed. */
const MOST_LOST = 3;
const SOON_MS = 1000;

/** Writes the result of a build to its Job, which outlives its pod, and handles it. */
export async function endBuild(
  wanted: WantedBuild,
  { job, record }: { job: Job; record: BuildRecord },
  context: BuilderContext,
): Promise<BuildOutcome> {
  const { cluster, log, metrics } = context;
  const { name } = job.metadata;
  const annotations = { [annotation.buildResult]: JSON.stringify(record) };
  const written = await cluster(jobs).of(job).patch({ metadata: { annotations } }, { precondition: "uid" });
  const seconds = (Date.parse(record.finishedAt) - Date.parse(job.metadata.creationTimestamp ?? "")) / 1000;
  metrics.buildSeconds.observe({ outcome: record.state === "Built" ? "built" : "failed" }, Math.max(0, seconds));
  if (record.state === "Built") {
    metrics.buildSteps.inc({ cached: "true" }, record.cached);
    metrics.buildSteps.inc({ cached: "false" }, Math.max(0, record.steps - record.cached));
  } else {
    metrics.buildFailures.inc({ reason: record.reason });
  }
  const reason = record.state === "Failed" ? record.reason : undefined;
  log.info({ workload: wanted.workload.metadata.name, job: name, state: record.state, reason }, "build ended");
  return takeRecord(wanted, { job: written, record }, context);
}

/** Handles the result of a build. A build whose failure may be temporary is tried again after a pause. */
export async function takeRecord(
  wanted: WantedBuild,
  { job, record }: { job: Job; record: BuildRecord },
  context: BuilderContext,
): Promise<BuildOutcome> {
  const { workload, key } = wanted;
  const { image } = workload.status ?? {};
  const before = statusOf(wanted);
  const { finishedAt } = record;
  const startedAt = job.metadata.creationTimestamp ?? finishedAt;
  const times = { key, requestedAt: before?.requestedAt ?? startedAt, startedAt, finishedAt };
  if (record.state === "Built") {
    const { digest, steps, cached, commit } = record;
    const build: BuildStatus = {
      ...times,
      state: "Built",
      digest,
      steps,
      cached,
      ...(commit !== undefined && { commit }),
    };
    return { image: `${builtImage(workload.metadata.name, context.builds)}@${digest}`, build };
  }
  const { reason } = record;
  if (isLasting(reason)) return { image, build: { ...times, state: "Failed", reason, message: record.message } };
  const tries = triesOf(job) + 1;
  const state = reason === "BuildLost" && tries < MOST_LOST ? "Pending" : "Failed";
  const failed = withRetry({ ...times, state, reason, tries }, record.message);
  // Delete the Job only after its result is in the status: the Job has the number of tries.
  const isWritten = before?.tries === tries && before.finishedAt === finishedAt;
  const waitMs = retryInMs(failed, context.serverNow());
  // A waiting pod would take the slot of another build.
  const isIdle = record.isLeft === true && !isFinished(job, context.serverNow());
  if (isWritten && (waitMs <= 0 || isIdle)) await deleteJob(job, context);
  return { image, build: failed, requeueAfterMs: Math.max(isWritten ? SOON_MS : 0, waitMs) };
}

/** The status of a failed build that will be tried again: why it failed, and when the next try is. */
export function withRetry(
  failed: BuildStatus & { tries: number; finishedAt: string },
  why: string,
): BuildStatus & { message: string } {
  const at = Date.parse(failed.finishedAt) + pauseMs(failed.tries);
  return { ...failed, message: `${why}; it is tried again after ${new Date(at).toISOString()}` };
}

/**
 * In how many milliseconds a failed build is tried again.
 *
 * @param now the API server's time, in milliseconds since the epoch
 */
export function retryInMs(build: BuildStatus | undefined, now: number): number {
  const { tries = 0, finishedAt } = build ?? {};
  if (tries === 0 || finishedAt === undefined) return 0;
  const pause = pauseMs(tries);
  const waitMs = Date.parse(finishedAt) + pause - now;
  // If the clock was set back, retry now.
  return waitMs > pause ? 0 : waitMs;
}

function pauseMs(tries: number): number {
  return Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** (tries - 1));
}

/** The number of earlier tries of the build that failed for a temporary reason. */
export function triesOf({ metadata }: Job): number {
  const tries = Number(metadata.annotations?.[annotation.attempt]);
  return Number.isSafeInteger(tries) && tries > 0 ? tries : 0;
}

/** The workload's build status, if it is of this build. */
export function statusOf({ workload, key }: WantedBuild): BuildStatus | undefined {
  const { build } = workload.status ?? {};
  return build?.key === key ? build : undefined;
}

/** The condition `Built`: while a build runs or after it failed, pods run the previous image. */
export function builtConditions(image: string | undefined, build: BuildStatus | undefined): ConditionNow[] {
  if (build === undefined) return [];
  const { state, reason, message = "" } = build;
  if (state === "Built") return [{ type: "Built", status: "True", reason: "Built", message: `Pods run ${image}` }];
  const until = image === undefined ? "" : `${message === "" ? "" : "; "}until it is built, pods run ${image}`;
  return [{ type: "Built", status: "False", reason: reason ?? state, message: `${message}${until}` }];
}

/** Records an Event when a build begins and when it ends. */
export function reportBuild(workload: Workload, build: BuildStatus, { events }: BuildsContext): void {
  const before = workload.status?.build;
  const isSame = before?.key === build.key && before?.state === build.state && before.finishedAt === build.finishedAt;
  if (isSame && before.reason === build.reason && before.startedAt === build.startedAt) return;
  const about = { resource: workloads, object: workload };
  const { state, reason = state, message = "", digest, steps = 0, cached = 0 } = build;
  switch (state) {
    case "Built": {
      const found = `${digest}, ${cached} of ${steps} steps from the cache`;
      events.record({ ...about, type: "Normal", reason: "Built", message: `the image is built: ${found}` });
      return;
    }
    case "Building":
      events.record({ ...about, type: "Normal", reason: "BuildStarted", message: `build ${build.key} has begun` });
      return;
    case "Failed":
      events.record({ ...about, type: "Warning", reason, message });
      return;
    case "Pending":
      if (build.finishedAt !== undefined) events.record({ ...about, type: "Warning", reason, message });
      return;
    default:
      state satisfies never;
  }
}
