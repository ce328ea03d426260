import { SANDBOX_CONDITIONS } from "../../crds/claims/claim-pod.ts";
import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { clearManagedFields } from "../../crds/client/managed-fields.ts";
import { pools } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { label, WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import type { OperatorContext } from "../context.ts";
import { isOfUnknownHistory } from "../history.ts";
import { deleteUnclaimed } from "../pod/delete-pod.ts";
import { explainStart } from "../pod/explain-start.ts";
import { failureMessage, podState } from "../pod/pod-state.ts";
import type { ReconcileResult } from "../queue.ts";
import { rememberRoot } from "../workload/readiness.ts";
import { isNobodys } from "./pool-member.ts";

// A readiness probe that failed for a moment is no reason to throw a warm pod away.
const UNREADY_LIMIT_MS = 30_000;
/** The conditions without which a pod is not ready. */
const DECISIVE = ["Ready", ...SANDBOX_CONDITIONS];
/** Until a pod whose label waits for a claim is looked at again. */
const [SHORTEST_LABEL_WAIT_MS, LONGEST_LABEL_WAIT_MS] = [1000, 4000];

/** Looks after one unclaimed pod of a pool: its `pool-status` label, its start-up limit, and its end when it fails. */
export async function reconcileMember(pod: Pod, pool: string, context: OperatorContext): Promise<ReconcileResult> {
  const isUnknown = isOfUnknownHistory(pod, context.historySince);
  if (isUnknown || !isNobodys(pod) || !(await poolExists(pool, context))) {
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
      return replace(pod, pool, failureMessage(state, context.config), context);
    case "lost":
      return replace(pod, pool, state.message, context);
    case "unschedulable":
      return undefined;
    case "starting":
      break;
    default:
      return state satisfies never;
  }
  if (pod.metadata.labels?.[label.poolStatus] === "ready") await writeStatusLabel(pod, "warming", context);
  if (state.since === undefined) return undefined;
  const { lostAt, wasReady } = readiness(pod);
  const startsUntil = wasReady ? 0 : Date.parse(state.since) + context.config.startTimeoutMs;
  const leftMs = Math.max(lostAt + UNREADY_LIMIT_MS, startsUntil) - Date.now();
  if (leftMs > 0) return { requeueAfterMs: leftMs };
  const { message, mend } = await explainStart({ pod, message: state.message }, context);
  return replace(pod, pool, `pod ${pod.metadata.name} is not ready in time (${message}): mend ${mend}`, context);
}

/**
 * Labels a pod that has become ready. Claims go by the pod's own status, so where one takes it in the next seconds the
 * label is left out: it would be one of seven writes of a claim with its refill.
 */
async function markReady(pod: Pod, context: OperatorContext): Promise<ReconcileResult> {
  const { [label.poolStatus]: status, [label.workload]: name = "" } = pod.metadata.labels ?? {};
  if (status === "ready") return undefined;
  const ready = context.informers.pods.store.by("warm", name).size;
  const turnMs = context.refillPause.turnMs({ name, ready });
  if (turnMs === undefined) return writeStatusLabel(pod, "ready", context);
  return { requeueAfterMs: Math.min(Math.max(turnMs, SHORTEST_LABEL_WAIT_MS), LONGEST_LABEL_WAIT_MS) };
}

async function poolExists(name: string, { informers, client, config }: OperatorContext): Promise<boolean> {
  const { namespace } = config;
  const known = informers.pools.store.get(`${namespace}/${name}`);
  if (known !== undefined) return known.metadata.deletionTimestamp === undefined;
  try {
    informers.pools.put(await client.get(pools, { namespace, name }));
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

/**
 * Since when a pod is not ready, in milliseconds since the epoch, and whether it was before. The label cannot tell, which
 * may be behind: the condition is false before the program starts, so where it became so after that, it was true in
 * between.
 */
function readiness({ status }: Pod): { lostAt: number; wasReady: boolean } {
  const lost = status?.conditions?.filter(({ type, status }) => DECISIVE.includes(type) && status !== "True") ?? [];
  const lostAt = Math.max(0, ...lost.map(({ lastTransitionTime }) => Date.parse(lastTransitionTime ?? "") || 0));
  const program = status?.containerStatuses?.find(({ name }) => name === WORKLOAD_CONTAINER);
  const starts = [program?.lastState?.terminated, program?.state?.running, program?.state?.terminated];
  // A start that failed has the year 1970.
  const startedAt = starts.map((state) => Date.parse(state?.startedAt ?? "")).find((time) => time > 0);
  return { lostAt, wasReady: startedAt !== undefined && lostAt > startedAt };
}

async function replace(pod: Pod, pool: string, message: string, context: OperatorContext): Promise<undefined> {
  context.poolFailures.failed(pool, message);
  await deleteUnclaimed(pod, context);
  return undefined;
}

/** On the condition that the pod is as it was read, so that it never marks a pod that a claim has just taken. */
async function writeStatusLabel(
  pod: Pod,
  status: "warming" | "ready",
  { client, informers, reservedPods }: OperatorContext,
): Promise<undefined> {
  const { name, namespace = "", uid = "", resourceVersion } = pod.metadata;
  if (reservedPods.has(uid)) return undefined;
  const body = { metadata: { ...clearManagedFields, resourceVersion, labels: { [label.poolStatus]: status } } };
  try {
    informers.pods.put(await client.patch(pods, { namespace, name }, { type: "merge", body }));
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
  }
  return undefined;
}
