import { isDeepStrictEqual } from "node:util";
import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { pools } from "../../crds/kinds.ts";
import { label } from "../../crds/labels.ts";
import { type Pool, type PoolStatus, poolWords } from "../../crds/pool.ts";
import { type ConditionNow, nextConditions, readiness } from "../../crds/schema/condition.ts";
import { isReadyToUse } from "../../crds/workload-phase.ts";
import { countUnknown } from "../history.ts";
import { podState } from "../pod/pod-state.ts";
import type { ReconcileResult } from "../queue.ts";
import type { PoolContext } from "./context.ts";
import { isNewScaling } from "./pool-sizes.ts";

const SLOWED = "; one pod at a time is tried, with growing pauses, until one starts and stays ready";

const RETRIED = "; one pod is tried again at least twice a minute, and when a quota has more room";

const PROBLEMS = ["PodsFail", "QuotaExceeded", "PodRefused"] as const;
type PoolProblem = (typeof PROBLEMS)[number];

/** Why a pool does not fill, as an earlier leader wrote it; undefined if its pods start. */
export function writtenProblem({ metadata, status }: Pool): { reason: PoolProblem; message: string } | undefined {
  const { phase, reason, message = "", observedGeneration } = status ?? {};
  if (phase !== "Degraded" || observedGeneration !== metadata.generation) return undefined;
  const known = PROBLEMS.find((problem) => problem === reason);
  return known && { reason: known, message: message.replace(SLOWED, "").replace(RETRIED, "") };
}

/** Writes a pool's status if it has changed, and an Event when the pool begins to fail. */
export async function writePoolStatus(key: string, context: PoolContext): Promise<ReconcileResult> {
  const { informers, poolFailures } = context;
  const pool = informers.pools.store.get(key);
  if (pool === undefined || pool.metadata.deletionTimestamp !== undefined) return undefined;
  const reviewInMs = poolFailures.review(pool.metadata.name, (pod) => informers.pods.store.get(pod));
  await writeStatus(pool, context);
  return reviewInMs === undefined ? undefined : { requeueAfterMs: reviewInMs };
}

async function writeStatus(pool: Pool, context: PoolContext): Promise<undefined> {
  const status = statusOf(pool, context);
  const { name, generation } = pool.metadata;
  const former = pool.status?.conditions;
  const conditions = nextConditions(former, conditionsOf(status), { generation });
  if (isDeepStrictEqual({ ...withoutNulls(status), conditions }, pool.status)) return undefined;

  try {
    await context
      .cluster(pools)
      .of(pool)
      .patchStatus({ ...status, conditions });
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
    return undefined;
  }
  const { phase, reason, message } = status;
  const isNews = former?.find(({ type }) => type === "Degraded")?.status !== "True";
  if (!isNews || reason == null || message == null || !isFailing(phase)) return undefined;
  // With a full quota, a pool is refused again after each pod that ends.
  if (context.poolRefusals.get(name)?.reason === reason) context.poolEvents.warn(pool, { reason, message });
  else context.events.record({ resource: pools, object: pool, type: "Warning", reason, message });
  return undefined;
}

function isFailing(phase: PoolStatus["phase"]): boolean {
  return phase === "Degraded" || phase === "Error";
}

function conditionsOf({ phase, reason, message, ready, desired }: ReturnType<typeof statusOf>): ConditionNow[] {
  const said = { reason: reason ?? phase, message: message ?? `${ready} of ${desired} pods can be claimed` };
  const condition = (type: string, holds: boolean): ConditionNow => ({
    type,
    status: holds ? "True" : "False",
    ...said,
  });
  // In `Error` it waits for its workload, and the workload's status says what a person has to do.
  const state = phase === "Ready" ? "ready" : phase === "Degraded" ? "stalled" : "reconciling";
  return [
    ...readiness(state, said),
    condition("Progressing", phase === "Filling"),
    condition("Degraded", isFailing(phase)),
  ];
}

type Written = { [Field in keyof Omit<PoolStatus, "conditions">]: PoolStatus[Field] | null };

function statusOf(pool: Pool, context: PoolContext): Written & { ready: number; phase: PoolStatus["phase"] } {
  const { informers, config, poolFailures, poolRefusals, poolSizes } = context;
  const { name, generation = 0 } = pool.metadata;
  const { workloadRef } = pool.spec;
  const { size, scaling } = poolSizes.get(pool);
  const { desired, scaling: formerScaling = null, observedGeneration } = pool.status ?? {};
  const former = formerScaling === null ? {} : { scaling: formerScaling };
  const isOfOldSpec = observedGeneration !== generation;
  const isNew = scaling !== undefined && (isOfOldSpec || isNewScaling({ size, scaling }, { size: desired, ...former }));
  const members = informers.pods.store.by("pool", `${name}/ready`);
  const ready = members.size - countUnknown(members, context.historySince);
  const counts = {
    ready,
    warming: informers.pods.store.by("pool", `${name}/warming`).size,
    desired: size,
    scaling: pool.spec.size !== undefined ? null : isNew ? scaling : formerScaling,
    selector: `${label.pool}=${name}`,
    observedGeneration: generation,
  };
  // Servers before 1.25 accept it.
  if (pool.spec.size === undefined && pool.spec.maxSize === undefined)
    return { ...counts, phase: "Error", reason: "SizeMissing", message: `spec: ${poolWords.size}` };
  const workload = informers.workloads.store.get({ namespace: config.namespace, name: workloadRef });
  if (workload === undefined) {
    const message = `workload "${workloadRef}" does not exist in namespace "${config.namespace}", the only one that is served here: create it there, the pool then fills by itself`;
    return { ...counts, phase: "Error", reason: "WorkloadNotFound", message };
  }
  if (workload.metadata.deletionTimestamp !== undefined) {
    const message = `workload "${workloadRef}" is being deleted, and is held by this pool: delete the pool`;
    return { ...counts, phase: "Error", reason: "WorkloadTerminating", message };
  }
  if (!isReadyToUse(workload) && workload.status?.phase === "Error") {
    const message = `workload "${workloadRef}" is not ready (${workload.status.reason}): ${workload.status.message}`;
    return { ...counts, phase: "Error", reason: "WorkloadNotReady", message };
  }
  const refusal = ready < size ? poolRefusals.get(name) : undefined;
  if (refusal !== undefined)
    return { ...counts, phase: "Degraded", reason: refusal.reason, message: refusal.message + RETRIED };
  const failures = poolFailures.get(name);
  if (failures !== undefined && poolFailures.isDegraded(name)) {
    const message = failures.message + SLOWED;
    return { ...counts, phase: "Degraded", reason: "PodsFail", message };
  }
  if (ready >= size) return { ...counts, phase: "Ready", reason: null, message: null };
  for (const pod of informers.pods.store.by("pool", `${name}/warming`)) {
    const state = podState(pod);
    if (state.state === "unschedulable")
      return { ...counts, phase: "Filling", reason: "Unschedulable", message: state.message };
  }
  const unready = informers.pods.store.by("pool", `${name}/unready`).size;
  if (unready > 0) {
    const message = `pods that were ready and are not ready any more: ${unready}; others are started in their place`;
    return { ...counts, phase: "Filling", reason: "PodsUnready", message };
  }
  return { ...counts, phase: "Filling", reason: null, message: null };
}

function withoutNulls(status: object): object {
  return Object.fromEntries(Object.entries(status).filter(([, value]) => value !== null));
}
