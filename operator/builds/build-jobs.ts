import { isDeepStrictEqual } from "node:util";
import { ApiError, isAlreadyExists } from "../../crds/client/api-error.ts";
import { jobs, networkPolicies } from "../../crds/client/built-in-resources.ts";
import { keyOf } from "../../crds/client/watch/store.ts";
import type { Job, NetworkPolicy } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import type { Workload } from "../../crds/workload.ts";
import type { BuildConfig } from "../config.ts";
import { isFinished } from "./build-progress.ts";
import { recordOf } from "./build-result.ts";
import type { BuildInformers, BuildsContext } from "./context.ts";
import { renderBuildJob, renderBuildsPolicy } from "./render-build.ts";

// Finished Jobs are kept for their logs, and so that their builds need not run again.
const KEPT_FINISHED = 3;
const STUCK_MS = 60_000;

/** The context of an operator that builds images. */
export interface BuilderContext extends BuildsContext {
  readonly builds: BuildConfig;
  readonly buildInformers: BuildInformers;
}

/** The result of beginning a build. */
export type Begun =
  | { readonly state: "begun"; readonly job: Job }
  /** The limit of concurrent builds is reached. */
  | { readonly state: "queued" }
  /** A Job of that name exists; its event or the next look shows its owner. */
  | { readonly state: "taken" }
  | { readonly state: "refused"; readonly message: string };

/** Whether a Job is this build of this workload, and not of an earlier workload of the same name. */
export function isJobOf({ metadata }: Job, { workload, key }: { workload: Workload; key: string }): boolean {
  return (
    metadata.labels?.[label.build] === "true" &&
    metadata.annotations?.[annotation.workloadUid] === workload.metadata.uid &&
    metadata.annotations?.[annotation.buildKey] === key
  );
}

/**
 * Creates the Job of a build, unless the limit of concurrent builds is reached.
 *
 * @param build.requestedAt earlier requests go first
 */
export async function beginBuild(
  workload: Workload,
  build: { key: string; tries: number; requestedAt: string },
  context: BuilderContext,
): Promise<Begun> {
  const { builds, buildTurns, cluster } = context;
  const { name } = workload.metadata;
  const job = renderBuildJob(workload, build, builds);
  const jobName = job.metadata.name;
  buildTurns.asks(workload);
  if (!isNext(workload, build.requestedAt, context)) return { state: "queued" };
  // Before the first await: other reconciles count at the same time.
  buildTurns.beingMade.add(jobName);
  try {
    // The cache may not show the previous leader's last Job yet.
    const labelSelector = `${label.build}=true`;
    await cluster(jobs).in(builds.namespace).list({ labelSelector, refresh: true });
    if (underWay(context).size > builds.concurrency) return { state: "queued" };
    await applyBuildsPolicy(context);
    return { state: "begun", job: await cluster(jobs).create(job) };
  } catch (error) {
    if (isAlreadyExists(error)) return { state: "taken" };
    const message = refusal(error, { name, builds });
    if (message === undefined) throw error;
    return { state: "refused", message };
  } finally {
    buildTurns.beingMade.delete(jobName);
  }
}

/**
 * Applies the network policy of all builds. It has to exist before any part of a build runs
 * (docs/decisions/watch-and-caches.md#child-objects-have-one-owner-and-are-written-by-the-fenced-client).
 */
export async function applyBuildsPolicy(context: BuilderContext): Promise<void> {
  const { spec, ...policy } = renderBuildsPolicy(context.builds);
  // An omitted field would keep the value that another client has set.
  const whole = { ...policy, spec: { ingress: [], ...spec } as NetworkPolicy["spec"] };
  await context.cluster(networkPolicies).apply(whole);
}

/** Applies the policy if the cached one differs. */
export async function holdBuildsPolicy(context: BuilderContext): Promise<void> {
  const { metadata, spec } = renderBuildsPolicy(context.builds);
  const present = context.buildInformers.policies.store.get(keyOf({ metadata }));
  if (!isDeepStrictEqual(present?.spec, spec)) await applyBuildsPolicy(context);
}

/** Why no Job can be created in the namespace, and what to change; undefined if a retry may help. */
export function refusal(error: unknown, { name, builds }: { name: string; builds: BuildConfig }): string | undefined {
  if (!(error instanceof ApiError) || ![400, 403, 404, 422].includes(error.status)) return undefined;
  const { namespace } = builds;
  if (error.status === 404 || /because it is being terminated/.test(error.message)) {
    return `the namespace of builds, "${namespace}", does not exist: apply manifests/builds, or name another in TENANCY_BUILD_NAMESPACE (${error.message})`;
  }
  return `the cluster refuses the build of "${name}" in namespace "${namespace}": see manifests/builds (${error.message})`;
}

/** Whether there is room for one more build, and no earlier request waits. */
function isNext({ metadata }: Workload, requestedAt: string, context: BuilderContext): boolean {
  const free = context.builds.concurrency - underWay(context).size;
  const ahead = [...context.informers.workloads.store.by("queuedBuild", "")].filter((other) => {
    const asked = other.status?.build?.requestedAt ?? "";
    if (other.metadata.uid === metadata.uid || !context.buildTurns.waits(other)) return false;
    return asked < requestedAt || (asked === requestedAt && other.metadata.name < metadata.name);
  });
  return ahead.length < free;
}

/** The names of the Jobs that have not ended, and of those that are being created. */
function underWay({ buildInformers, buildTurns, serverNow }: BuilderContext): Set<string> {
  const names = new Set(buildTurns.beingMade);
  for (const job of buildInformers.jobs.store.values())
    if (!isFinished(job, serverNow()) && !isStuck(job, serverNow())) names.add(job.metadata.name);
  return names;
}

/** Whether a deleted Job still exists because its node does not answer. Its pod had 10 s to end. */
function isStuck({ metadata: { deletionTimestamp } }: Job, now: number): boolean {
  return deletionTimestamp !== undefined && now - Date.parse(deletionTimestamp) > STUCK_MS;
}

/** The number of builds that have not ended. */
export function countUnderWay(context: BuilderContext): number {
  return underWay(context).size;
}

/**
 * The Jobs that a workload does not need any more: running ones that are not the build of `key`, and all finished ones
 * except the newest.
 *
 * @param key of the build that the workload needs now; undefined: none
 */
export function oldJobs(workload: Workload, key: string | undefined, context: BuilderContext): Job[] {
  const own = [...context.buildInformers.jobs.store.by("workload", workload.metadata.name)].filter(
    (job) => key === undefined || !isJobOf(job, { workload, key }),
  );
  // A Job is finished a moment after its image is built.
  const hasEnded = (job: Job) => isFinished(job, context.serverNow()) || recordOf(job)?.state === "Built";
  const isKept = (job: Job) =>
    hasEnded(job) && job.metadata.annotations?.[annotation.workloadUid] === workload.metadata.uid;
  const ended = own.filter(isKept).sort((a, b) => (createdAt(a) < createdAt(b) ? 1 : -1));
  const most = key === undefined ? KEPT_FINISHED : KEPT_FINISHED - 1;
  return [...own.filter((job) => !isKept(job)), ...ended.slice(most)];
}

/**
 * Deletes all Jobs of workloads of that name, with their pods.
 *
 * @returns whether only Jobs are left that wait for a node that does not answer
 */
export async function deleteAllJobs({ metadata }: Workload, context: BuilderContext): Promise<boolean> {
  const { builds, cluster } = context;
  const labelSelector = `${label.build}=true,${label.workload}=${metadata.name}`;
  const { items: left } = await cluster(jobs).in(builds.namespace).list({ labelSelector });
  for (const job of left) await deleteJob(job, context);
  return left.every((job) => isStuck(job, context.serverNow()));
}

/** Deletes the Job. It stays until its pod is gone, unless the pod's node does not answer. */
export async function deleteJob(job: Job, { cluster, serverNow }: BuilderContext): Promise<void> {
  const { deletionTimestamp } = job.metadata;
  if (deletionTimestamp !== undefined && !isStuck(job, serverNow())) return;
  const propagationPolicy = deletionTimestamp === undefined ? "Foreground" : "Background";
  await cluster(jobs).of(job).delete({ propagationPolicy });
}

function createdAt({ metadata }: Job): string {
  return metadata.creationTimestamp ?? "";
}
