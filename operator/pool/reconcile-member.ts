import { isWarm, unprobedRun } from "../../crds/claims/claim-pod.ts";
import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { clearManagedFields } from "../../crds/client/managed-fields.ts";
import { pools } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { deleteUnclaimed } from "../pod/delete-pod.ts";
import { explainStart } from "../pod/explain-start.ts";
import { isMarkedByNode } from "../pod/node-silence.ts";
import { endedByNode, failureMessage, podState } from "../pod/pod-state.ts";
import { startTimeoutOf } from "../pod/start-timeout.ts";
import type { ReconcileResult } from "../queue.ts";
import { rememberRoot } from "../workload/remember-root.ts";
import type { PoolContext } from "./context.ts";
import { lostReadiness } from "./lost-readiness.ts";
import { neverHadTenant } from "./pool-member.ts";

// A readiness probe may fail for a moment: that is no reason to delete a warm pod.
const UNREADY_LIMIT_MS = 30_000;
const RECHECK_MS = 1000;
/** Until the next look at a pod whose label is delayed, see {@link markReady}. */
const [SHORTEST_LABEL_WAIT_MS, LONGEST_LABEL_WAIT_MS] = [1000, 4000];

/**
 * Reconciles one unclaimed pod of a pool: its `pool-status` label, its limit for starting, its deletion if it fails.
 */
export async function reconcileMember(pod: Pod, pool: string, context: PoolContext): Promise<ReconcileResult> {
  // A claim is binding the pod. If that fails, no event may follow.
  if (context.reservedPods.has(pod.metadata.uid ?? "")) return { requeueAfterMs: RECHECK_MS };
  if (!neverHadTenant(pod) || !(await poolExists(pool, context))) {
    await deleteUnclaimed(pod, context);
    return undefined;
  }
  const state = podState(pod);
  switch (state.state) {
    case "ready":
      return markReady(pod, context);
    case "needs-root":
      await rememberRoot(pod, context);
      return deleteUnclaimed(pod, context).then(() => undefined);
    case "failed":
      return replaceFailed(pod, pool, failureMessage(state, context.config), context);
    case "lost":
      // If the node never started the pod, each node may refuse it, so do not start the next one at once.
      return endedByNode(pod) && lostReadiness(pod).wasReady
        ? replaceLost(pod, pool, state.message, context)
        : replaceFailed(pod, pool, state.message, context);
    case "unschedulable":
      return undefined;
    case "starting":
      break;
    default:
      return state satisfies never;
  }
  if (pod.metadata.labels?.[label.poolStatus] !== "warming") await writeStatusLabel(pod, "warming", context);
  if (state.since === undefined) return undefined;
  const { name, uid = "" } = pod.metadata;
  const { lostAt, wasReady } = lostReadiness(pod);
  const startLeftMs =
    startTimeoutOf(pod, context) - context.seenTimes.forMs(uid, { state: "starting", since: state.since });
  const unreadyLeftMs = UNREADY_LIMIT_MS - context.seenTimes.forMs(uid, { state: "unready", since: lostAt });
  const leftMs = Math.max(unreadyLeftMs, wasReady ? 0 : startLeftMs);
  if (leftMs > 0) return { requeueAfterMs: leftMs };
  if (isNodeSilent(pod, context))
    return replaceLost(pod, pool, `node "${pod.spec.nodeName}" does not answer for pod "${name}"`, context);
  const { message, fix } = await explainStart({ pod, message: state.message }, context);
  if (wasReady)
    return replaceLost(pod, pool, `pod "${name}" was ready and is not ready any more (${message})`, context);
  return replaceFailed(pod, pool, `pod ${name} is not ready in time (${message}): fix ${fix}`, context);
}

/** Whether this pod, or another pod of the workload on its node, shows that the node does not answer. */
function isNodeSilent(pod: Pod, { informers }: PoolContext): boolean {
  const beside = informers.pods.store.by("workload", pod.metadata.labels?.[label.workload] ?? "");
  return [...beside].some((other) => other.spec.nodeName === pod.spec.nodeName && isMarkedByNode(other));
}

/**
 * Labels a pod that has become ready. Claims read the pod's status, not the label. So if a claim will probably take the
 * pod within seconds, the label is delayed, and often saved: it is one of seven writes of a claim with its refill.
 */
async function markReady(pod: Pod, context: PoolContext): Promise<ReconcileResult> {
  const { [label.poolStatus]: status, [label.workload]: name = "" } = pod.metadata.labels ?? {};
  if (status === "ready" && isWarm(pod)) return undefined;
  if (unprobedRun(pod) !== undefined) return proveRun(pod, context);
  const ready = context.informers.pods.store.by("warm", name).size;
  const turnMs = context.refillPause.turnMs({ name, ready });
  if (turnMs === undefined) return writeStatusLabel(pod, "ready", context);
  return { requeueAfterMs: Math.min(Math.max(turnMs, SHORTEST_LABEL_WAIT_MS), LONGEST_LABEL_WAIT_MS) };
}

/** Claims need the label of a pod without a probe, so it is written at once, with the run of the program it is for. */
async function proveRun(pod: Pod, context: PoolContext): Promise<ReconcileResult> {
  const leftMs = context.programRuns.leftMs(pod);
  if (leftMs === 0) return writeStatusLabel(pod, "ready", context);
  if (pod.metadata.labels?.[label.poolStatus] === "ready") await writeStatusLabel(pod, "warming", context);
  return { requeueAfterMs: leftMs };
}

async function poolExists(name: string, { cluster, config, informers }: PoolContext): Promise<boolean> {
  const known = informers.pools.store.get({ namespace: config.namespace, name });
  if (known !== undefined) return known.metadata.deletionTimestamp === undefined;
  return (await cluster(pools).named(name).find({ refresh: true })) !== undefined;
}

/** Replaces a pod that failed because of its workload. */
async function replaceFailed(pod: Pod, pool: string, message: string, context: PoolContext): Promise<undefined> {
  context.poolFailures.failed(pool, message);
  await deleteUnclaimed(pod, context);
  return undefined;
}

/** Replaces a pod that was ready once. It does not delay the next one. */
async function replaceLost(pod: Pod, pool: string, why: string, context: PoolContext): Promise<undefined> {
  const owner = context.informers.pools.store.get({ namespace: context.config.namespace, name: pool });
  if (owner !== undefined) context.poolEvents.warn(owner, { reason: "PodLost", message: `${why}; it is replaced` });
  await deleteUnclaimed(pod, context);
  return undefined;
}

/** The resourceVersion is the precondition, so that the label never reaches a pod that a claim has just taken. */
async function writeStatusLabel(
  pod: Pod,
  status: "warming" | "ready",
  { cluster, reservedPods }: PoolContext,
): Promise<undefined> {
  if (reservedPods.has(pod.metadata.uid ?? "")) return undefined;
  const run = status === "ready" ? unprobedRun(pod) : undefined;
  const metadata = {
    ...{ ...clearManagedFields, labels: { [label.poolStatus]: status } },
    ...(run !== undefined && { annotations: { [annotation.provenRun]: run } }),
  };
  try {
    await cluster(pods).of(pod).patch({ metadata });
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
  }
  return undefined;
}
