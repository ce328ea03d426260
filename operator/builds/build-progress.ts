import type { ContainerStatus, Job, Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import type { BuildConfig } from "../config.ts";
import { type BuildFailure, type BuildRecord, parseBuildResult } from "./build-result.ts";
import { BUILD_CONTAINER, CONTEXT_CONTAINER } from "./render-build.ts";

/** The progress of a build. */
export type BuildProgress =
  /** It does not run yet; with a message if it may never run. */
  | { readonly state: "waiting"; readonly message?: string | undefined }
  | { readonly state: "needs-context"; readonly pod: Pod }
  | { readonly state: "building" }
  | { readonly state: "ended"; readonly record: BuildRecord };

const BUILD_AGAIN = `build again with another value of the annotation ${annotation.rebuild}`;

const STUCK_MS = 60_000;

const imageProblems = new Set(["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"]);
const startProblems = new Set(["CreateContainerConfigError", "CreateContainerError", "RunContainerError"]);

/**
 * Whether no pod of a Job runs any more,
 * https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-termination-and-cleanup.
 *
 * @param now the API server's time, in milliseconds since the epoch
 */
export function isFinished(job: Job, now: number): boolean {
  return failureOf(job, now) !== undefined || hasCondition(job, "Complete");
}

/**
 * Whether a Job has or had a pod. At the deadline, the pod is deleted first, and the Job fails only after that (tried:
 * 1.34).
 */
export function hadPod({ status }: Job): boolean {
  const { active = 0, failed = 0, succeeded = 0, terminating = 0, uncountedTerminatedPods } = status ?? {};
  const uncounted = [...(uncountedTerminatedPods?.failed ?? []), ...(uncountedTerminatedPods?.succeeded ?? [])];
  const isEnding = status?.conditions?.some(({ type }) => type === "FailureTarget") === true;
  return isEnding || active + failed + succeeded + terminating + uncounted.length > 0;
}

/** A Job and its pod. */
interface SeenBuild {
  readonly job: Job;
  /** Of this Job; undefined if it has none. */
  readonly pod: Pod | undefined;
  /** Whether the pod fetches its context itself. */
  readonly isFromGit: boolean;
  /** The API server's time, in milliseconds since the epoch. */
  readonly now: number;
}

/**
 * Reads the progress of a build from its Job and its pod.
 *
 * A result of the builder counts at once. A missing result counts only when the Job has ended, since only the Job shows
 * why its pod was killed.
 */
export function buildProgress(seen: SeenBuild, config: BuildConfig): BuildProgress {
  const { job, pod, isFromGit, now } = seen;
  const context = statusOf(pod?.status?.initContainerStatuses, CONTEXT_CONTAINER);
  const build = statusOf(pod?.status?.containerStatuses, BUILD_CONTAINER);
  const ended = build?.state?.terminated;
  const result = parseBuildResult(ended?.message ?? "");
  if (ended !== undefined && result !== undefined && (result.state === "Failed" || ended.exitCode === 0)) {
    const commit = /^commit=([0-9a-f]{40,64})$/m.exec(context?.state?.terminated?.message ?? "")?.[1];
    const finishedAt = isoTime(ended.finishedAt, now);
    const record = result.state === "Built" ? { ...result, ...(commit !== undefined && { commit }) } : result;
    return { state: "ended", record: { ...record, finishedAt } };
  }
  if (isFinished(job, now)) return { state: "ended", record: withoutResult(seen, config) };
  if (pod === undefined) return { state: "waiting" };
  if (context?.state?.running !== undefined) return isFromGit ? { state: "building" } : { state: "needs-context", pod };
  // After the context comes the build, also before its container runs.
  const hasBegun = context?.state?.terminated !== undefined || build?.state?.running !== undefined;
  if (hasBegun || ended !== undefined) return { state: "building" };
  return { state: "waiting", message: whyWaiting(pod, config) };
}

function withoutResult(seen: SeenBuild, config: BuildConfig): BuildRecord {
  const { job, now } = seen;
  const failed = failureOf(job, now);
  const finishedAt = isoTime(failed?.lastTransitionTime ?? job.status?.completionTime, now);
  const { reason, message } = explain(seen, failed?.reason === "DeadlineExceeded", config);
  return { state: "Failed", reason, message, finishedAt };
}

function explain(
  { pod, isFromGit }: SeenBuild,
  isLate: boolean,
  { timeoutMs, memory, disk, namespace }: BuildConfig,
): { reason: BuildFailure; message: string } {
  const context = statusOf(pod?.status?.initContainerStatuses, CONTEXT_CONTAINER)?.state?.terminated;
  const ended = statusOf(pod?.status?.containerStatuses, BUILD_CONTAINER)?.state?.terminated;
  const said = pod?.status?.message ?? "";
  if (isLate) {
    const message = `it was not built within ${timeoutMs / 1000} s: make the build shorter, or raise the operator's TENANCY_BUILD_TIMEOUT, then ${BUILD_AGAIN}`;
    return { reason: "BuildTimeout", message };
  }
  if (pod?.status?.reason === "Evicted" && /exceed/i.test(said) && !/low on resource/i.test(said)) {
    const message = `the build used more disk space than allowed (${said.trim()}): make it leave less behind, or raise the operator's TENANCY_BUILD_DISK (${disk}), then ${BUILD_AGAIN}`;
    return { reason: "BuildFailed", message };
  }
  if (ended?.reason === "OOMKilled" || context?.reason === "OOMKilled") {
    const message = `the build used more memory than allowed: make its steps use less, or raise the operator's TENANCY_BUILD_MEMORY (${memory}), then ${BUILD_AGAIN}`;
    return { reason: "BuildFailed", message };
  }
  if (isFromGit && context !== undefined && context.exitCode !== 0) {
    const why = context.message?.trim() || `exit code ${context.exitCode}`;
    if (context.exitCode === PATH_REFUSED) {
      return { reason: "ContextRefused", message: `spec.image.context.git.path: ${why}` };
    }
    const message = `the repository cannot be fetched: ${why}; see spec.image.context.git; its Secret has to be in namespace "${namespace}"`;
    return { reason: "ContextMissing", message };
  }
  const how = said || ended?.reason || (ended === undefined ? "it is gone" : `exit code ${ended.exitCode}`);
  const name = pod === undefined ? "its pod" : `pod "${pod.metadata.name}"`;
  return { reason: "BuildLost", message: `${name} ended without a result (${how})` };
}

// The exit code of `gitContextScript`.
const PATH_REFUSED = 65;

function whyWaiting({ metadata, status }: Pod, { namespace }: BuildConfig): string | undefined {
  const look = `kubectl -n ${namespace} describe pod ${metadata.name}`;
  for (const { image, state } of [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])]) {
    const reason = state?.waiting?.reason ?? "";
    if (imageProblems.has(reason)) {
      return `the builder's image ${image} cannot be pulled (TENANCY_BUILDER_IMAGE): see "${look}"`;
    }
    if (startProblems.has(reason)) return `its pod cannot be started: see "${look}"`;
  }
  const scheduled = status?.conditions?.find(({ type }) => type === "PodScheduled");
  return scheduled?.status === "False" ? `no node has room for its pod: ${scheduled.message ?? ""}` : undefined;
}

function statusOf(statuses: readonly ContainerStatus[] | undefined, container: string): ContainerStatus | undefined {
  return statuses?.find(({ name }) => name === container);
}

/** Since 1.31, a Job becomes `Failed` only after its pods have ended, and those of a lost node never end. */
function failureOf({ status }: Job, now: number) {
  const isOld = (time: string | undefined) => now - Date.parse(time ?? "") > STUCK_MS;
  return status?.conditions?.find(
    ({ type, status: holds, lastTransitionTime }) =>
      holds === "True" && (type === "Failed" || (type === "FailureTarget" && isOld(lastTransitionTime))),
  );
}

function hasCondition({ status }: Job, wanted: string): boolean {
  return status?.conditions?.some(({ type, status: holds }) => type === wanted && holds === "True") === true;
}

/** At most `now`: with the clock of a node that is ahead, a failed build would be tried again much later. */
function isoTime(time: string | undefined, now: number): string {
  const at = Date.parse(time ?? "");
  return new Date(Number.isNaN(at) ? now : Math.min(at, now)).toISOString();
}
