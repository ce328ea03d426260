import { randomUUID } from "node:crypto";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { nameSuffix, poolInstanceName } from "../../crds/names.ts";
import type { Pool } from "../../crds/pool.ts";
import type { Workload } from "../../crds/workload.ts";
import type { OperatorContext } from "../context.ts";
import { deleteUnclaimed } from "../pod/delete-pod.ts";
import { podRefusal } from "../pod/pod-refusal.ts";
import { isolationHash, renderPod, templateHash } from "../pod/render-pod.ts";
import type { ReconcileResult } from "../queue.ts";
import { isReadyToUse } from "../workload/readiness.ts";
import { isolationOf } from "./pool-member.ts";

const DEFAULT_FILL_CONCURRENCY = 5;

/** Whether the store has every member that a former leader created. */
export interface Members {
  areFresh(): boolean;
  /** Sees to it that they are. */
  refresh(): Promise<void>;
}

/**
 * Keeps a pool at its size.
 *
 * The pods that it has created are in the store before the next run, so a store whose watch lags never makes it create
 * twice. Pods of an old template go as pods of the new one become ready, so a roll never takes the pool below its size,
 * unless their isolation is another than the workload asks for now: those no claim may have, and they go at once. A
 * pool that is too large loses pods that are still warming first. Pods that were ready and are not any more count for
 * nothing: others are started in their place at once, and where they recover, the pool is too large for a moment.
 */
export async function reconcilePool(
  key: string,
  options: { context: OperatorContext; members: Members },
): Promise<ReconcileResult> {
  const { context, members } = options;
  const { informers, config, poolFailures, poolRefusals } = context;
  // Another pool's run can refresh them after this one has counted.
  const wereFresh = members.areFresh();
  const pool = informers.pools.store.get(key);
  if (pool === undefined || pool.metadata.deletionTimestamp !== undefined) return undefined;
  const workload = informers.workloads.store.get(`${config.namespace}/${pool.spec.workloadRef}`);
  // The workload's next event starts the next run. Pods that are ready stay.
  if (workload === undefined || !isReadyToUse(workload)) return undefined;

  const { name } = pool.metadata;
  const template = templateHash(workload, config);
  if (template === undefined) return undefined;
  const counted = (state: string) => informers.pods.store.by("pool", `${name}/${state}`);
  const hasOld = (state: string) => counted(state).size > counted(`${state}/${template}`).size;
  const withOld = ["ready", "warming", "unready"].filter(hasOld);
  if (withOld.length > 0) {
    const isolation = isolationHash(workload, config);
    const useless = withOld
      .flatMap((state) => [...counted(state)])
      .filter((pod) => isOld(pod, template) && isolationOf(pod) !== isolation);
    await Promise.all(useless.map((pod) => deleteUnclaimed(pod, context)));
  }
  const size = pool.spec.size;
  const maxFill = pool.spec.maxFillConcurrency ?? DEFAULT_FILL_CONCURRENCY;
  const readyNow = counted(`ready/${template}`).size;
  const warmingNow = counted(`warming/${template}`).size;

  const surplus = [
    ...["warming", "unready"]
      .filter(hasOld)
      .flatMap((state) => [...counted(state)].filter((pod) => isOld(pod, template))),
    ...last(counted(`warming/${template}`), readyNow + warmingNow - size),
    ...surplusReady(counted("ready"), { template, count: counted("ready").size - size }),
  ];
  await Promise.all(surplus.map((pod) => deleteUnclaimed(pod, context)));

  const missing = size - readyNow - warmingNow;
  if (missing <= 0) {
    context.refillPause.filled(name);
    poolRefusals.forget(name);
    return undefined;
  }
  const pauseMs = context.refillPause.waitMs({ name, workload: workload.metadata.name, size, ready: readyNow });
  const waitMs = Math.max(pauseMs, poolFailures.waitMs(name), poolRefusals.waitMs(name));
  if (waitMs > 0) return { requeueAfterMs: waitMs };
  if (!wereFresh) {
    await members.refresh();
    return reconcilePool(key, options);
  }
  const share = context.refillPause.share({ workload: workload.metadata.name, size, ready: readyNow, missing });
  const atOnce = poolFailures.isDegraded(name) ? 1 : Math.ceil(maxFill * share);
  // Pods that are unready hold no slot, but no more of them than the pool's size: a program that never stays ready would
  // be started again and again.
  const held = counted("warming").size + counted("failed").size + Math.max(0, counted("unready").size - size);
  const count = Math.min(missing, atOnce - held);
  if (count > 0) await startPods(count, { pool, workload }, context);
  const retryAfterMs = Math.max(poolFailures.waitMs(name), poolRefusals.waitMs(name));
  return retryAfterMs > 0 ? { requeueAfterMs: retryAfterMs } : undefined;
}

/** Starts one pod first where the last one was refused, and the others only when that one is taken. */
async function startPods(
  count: number,
  { pool, workload }: { pool: Pool; workload: Workload },
  context: OperatorContext,
): Promise<void> {
  const { name } = pool.metadata;
  const wasRefused = context.poolRefusals.get(name) !== undefined;
  if (wasRefused && !(await start(pool, workload, context))) return;
  const left = wasRefused ? count - 1 : count;
  const taken = await Promise.all(Array.from({ length: left }, () => start(pool, workload, context)));
  if (taken.every(Boolean)) context.poolRefusals.forget(name);
}

function isOld(pod: Pod, template: string | undefined): boolean {
  return pod.metadata.annotations?.[annotation.templateHash] !== template;
}

/** The `count` pods that came last; none when `count` is negative. */
function last(bucket: Iterable<Pod>, count: number): Pod[] {
  return count > 0 ? [...bucket].slice(-count) : [];
}

/** Which ready pods are too many: those of an old template first, then those that became ready last. */
function surplusReady(ready: Iterable<Pod>, { template, count }: { template: string; count: number }): Pod[] {
  if (count <= 0) return [];
  const old = [...ready].filter((pod) => isOld(pod, template)).slice(0, count);
  return [
    ...old,
    ...last(
      [...ready].filter((pod) => !isOld(pod, template)),
      count - old.length,
    ),
  ];
}

/**
 * Where a roll finds no room for a new pod beside the old ones, one old pod goes first: ready falls to `size - 1`, no
 * further.
 */
async function makeRoom(pool: Pool, template: string | undefined, context: OperatorContext): Promise<void> {
  const ready = context.informers.pods.store.by("pool", `${pool.metadata.name}/ready`);
  const old = [...ready].find((pod) => isOld(pod, template));
  if (old !== undefined && ready.size >= pool.spec.size) await deleteUnclaimed(old, context);
}

/** @returns whether the API server took the pod */
async function start(pool: Pool, workload: Workload, context: OperatorContext): Promise<boolean> {
  const { client, config, informers } = context;
  const { name } = pool.metadata;
  const podName = poolInstanceName({ workload: workload.metadata.name, suffix: nameSuffix(randomUUID()) });
  const labels = { [label.pool]: name, [label.poolStatus]: "warming" };
  const pod = renderPod(workload, { name: podName, labels, annotations: {} }, config);
  try {
    informers.pods.put(await client.create(pods, pod));
    return true;
  } catch (error) {
    const refusal = podRefusal(error);
    if (refusal === undefined) throw error;
    // Without the name, which is another one each time.
    const said = refusal.message.replace(`pods "${podName}" is forbidden: `, "");
    const message =
      refusal.reason === "QuotaExceeded"
        ? `the namespace has no room for another pod: release an instance, or raise its quota (${said})`
        : `the cluster refuses the pod: ${said}`;
    context.poolRefusals.refused(name, { ...refusal, message });
    await makeRoom(pool, templateHash(workload, config), context);
    return false;
  }
}
