import { isDeepStrictEqual } from "node:util";
import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { pools } from "../../crds/kinds.ts";
import { label } from "../../crds/labels.ts";
import type { Pool, PoolStatus } from "../../crds/pool.ts";
import type { OperatorContext } from "../context.ts";
import { isReadyToUse } from "../workload/is-ready-to-use.ts";

/** Writes what a pool has into its status, when that has changed, and an Event when it begins to fail. */
export async function writePoolStatus(key: string, context: OperatorContext): Promise<undefined> {
  const pool = context.informers.pools.store.get(key);
  if (pool === undefined || pool.metadata.deletionTimestamp !== undefined) return undefined;
  const status = statusOf(pool, context);
  const { conditions: _, ...present } = pool.status ?? {};
  context.metrics.poolReady.set({ pool: pool.metadata.name }, status.ready);
  if (isDeepStrictEqual(withoutNulls(status), present)) return undefined;

  const { name, namespace = "", resourceVersion, generation = 0 } = pool.metadata;
  const healthy = status.phase === "Ready" || status.phase === "Filling";
  const previous = pool.status?.conditions?.find(({ type }) => type === "Healthy");
  const value = healthy ? "True" : "False";
  const condition = {
    type: "Healthy",
    status: value,
    reason: status.reason ?? status.phase,
    message: status.message ?? "The pool's pods start as they should",
    observedGeneration: generation,
    lastTransitionTime: previous?.status === value ? previous.lastTransitionTime : new Date().toISOString(),
  };
  const body = { metadata: { resourceVersion }, status: { ...status, conditions: [condition] } };
  try {
    context.informers.pools.put(
      await context.client.patch(pools, { namespace, name }, { type: "merge", subresource: "status", body }),
    );
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
    return undefined;
  }
  if (!healthy && previous?.status !== value) {
    const { reason, message } = condition;
    context.events.record({ resource: pools, object: pool, type: "Warning", reason, message });
  }
  return undefined;
}

type Written = { [Field in keyof Omit<PoolStatus, "conditions">]: PoolStatus[Field] | null };

function statusOf(pool: Pool, context: OperatorContext): Written & { ready: number; phase: PoolStatus["phase"] } {
  const { informers, config, poolFailures } = context;
  const { name, generation = 0 } = pool.metadata;
  const { size, workloadRef } = pool.spec;
  const ready = informers.pods.store.by("pool", `${name}/ready`).size;
  const counts = {
    ready,
    warming: informers.pods.store.by("pool", `${name}/warming`).size,
    desired: size,
    selector: `${label.pool}=${name}`,
    observedGeneration: generation,
  };
  const workload = informers.workloads.store.get(`${config.namespace}/${workloadRef}`);
  if (workload === undefined) {
    const message = `workload "${workloadRef}" does not exist: create it, the pool then fills by itself`;
    return { ...counts, phase: "Error", reason: "WorkloadNotFound", message };
  }
  if (!isReadyToUse(workload) && workload.status?.phase === "Error") {
    const message = `workload "${workloadRef}" is not ready (${workload.status.reason}): ${workload.status.message}`;
    return { ...counts, phase: "Error", reason: "WorkloadNotReady", message };
  }
  const failures = poolFailures.get(name);
  if (failures !== undefined && poolFailures.isDegraded(name)) {
    const message = `${failures.message}; one pod at a time is tried, with growing pauses, until one becomes ready`;
    return { ...counts, phase: "Degraded", reason: "PodsFail", message };
  }
  return { ...counts, phase: ready >= size ? "Ready" : "Filling", reason: null, message: null };
}

function withoutNulls(status: object): object {
  return Object.fromEntries(Object.entries(status).filter(([, value]) => value !== null));
}
