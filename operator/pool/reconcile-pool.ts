import { randomUUID } from "node:crypto";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { nameSuffix, poolInstanceName } from "../../crds/names.ts";
import type { Pool } from "../../crds/pool.ts";
import type { Workload } from "../../crds/workload.ts";
import { isReadyToUse } from "../../crds/workload-phase.ts";
import { countUnknown, isOfUnknownHistory } from "../history.ts";
import { deleteUnclaimed } from "../pod/delete-pod.ts";
import { podRefusal } from "../pod/pod-refusal.ts";
import { podState } from "../pod/pod-state.ts";
import { isolationHash, renderPod, templateHash } from "../pod/render-pod.ts";
import { hasZones } from "../pod/zones.ts";
import type { ReconcileResult } from "../queue.ts";
import type { PoolContext } from "./context.ts";
import { isolationOf, type MemberState } from "./pool-member.ts";
import { decidePoolSize } from "./pool-sizes.ts";

const DEFAULT_FILL_CONCURRENCY = 5;
const RECHECK_MS = 1000;
const HELD_MS = 3000;
/** States of pods that cannot be claimed now, but may be later. */
const STARTING: readonly MemberState[] = ["warming", "unready"];

/** Whether the cache has all pods that the previous leader created. */
export interface FreshMembers {
  areFresh(): boolean;
  /** Reads them from the API server. */
  refresh(): Promise<void>;
}

/**
 * Fills a pool to its size: that of its spec, or the one that its claims need.
 *
 * - Created pods are cached before the next run, so a watch that is behind causes no second creation.
 * - Pods of an old template are deleted as pods of the new one become ready, so an update never makes the pool smaller
 *   than its size.
 * - Pods whose isolation differs from what the workload now asks for are deleted at once: no claim may have them.
 * - Pods of unknown history, which no claim may have either, are deleted like pods of an old template: they can be the
 *   whole pool.
 * - A pool that is too large first loses pods that are still warming.
 * - Pods that have lost their readiness do not count. Others are started at once, and if the first ones recover, the
 *   pool is too large for a moment.
 */
export async function reconcilePool(
  key: string,
  options: { context: PoolContext; fresh: FreshMembers },
): Promise<ReconcileResult> {
  const { context, fresh } = options;
  // Read this first: another pool's run can refresh the cache after this run has counted.
  const wereFresh = fresh.areFresh();
  const pool = context.informers.pools.store.get(key);
  if (pool === undefined || pool.metadata.deletionTimestamp !== undefined) return undefined;
  const { size, againAfterMs } = decidePoolSize(pool, context);
  const filled = await fillPool({ pool, size, wereFresh }, context);
  if (filled === "notFresh") {
    await fresh.refresh();
    return reconcilePool(key, options);
  }
  const waits = [filled?.requeueAfterMs, againAfterMs].filter((wait) => wait !== undefined);
  return waits.length === 0 ? undefined : { requeueAfterMs: Math.min(...waits) };
}

/** A pool and the number of pods that it aims for. */
interface SizedPool {
  readonly pool: Pool;
  readonly size: number;
}

/** @returns `notFresh` if it lacks pods, and the cache may lack some that the previous leader created */
async function fillPool(
  { pool, size, wereFresh }: SizedPool & { wereFresh: boolean },
  context: PoolContext,
): Promise<ReconcileResult | "notFresh"> {
  const { informers, config, poolFailures, poolRefusals } = context;
  const workload = informers.workloads.store.get({ namespace: config.namespace, name: pool.spec.workloadRef });
  const template = workload !== undefined && isReadyToUse(workload) ? templateHash(workload, config) : undefined;
  // The workload's next event starts the next run. Until then the pool keeps its pods, up to its size.
  if (workload === undefined || template === undefined) {
    await removeSurplus({ pool, size }, context);
    return undefined;
  }
  const members = membersOf(pool, template, context);
  await removeMembers(members, { pool, size, workload }, context);

  const { name } = pool.metadata;
  const maxFill = pool.spec.maxFillConcurrency ?? DEFAULT_FILL_CONCURRENCY;
  const [readyNow, warmingNow] = [members.current("ready"), members.current("warming")];
  const missing = size - readyNow - warmingNow;
  if (missing <= 0) {
    context.refillPause.filled(name);
    poolRefusals.forget(name);
    // A pod that changed at the same time was not deleted, and not every change of a pod starts a run.
    const isTooLarge = missing < 0 || members.all("ready").size > size;
    return isTooLarge ? { requeueAfterMs: RECHECK_MS } : undefined;
  }
  const pauseMs = context.refillPause.waitMs({ name, workload: workload.metadata.name, size, ready: readyNow });
  const waitMs = Math.max(pauseMs, poolFailures.waitMs(name), poolRefusals.waitMs(name));
  if (waitMs > 0) return { requeueAfterMs: waitMs };
  if (context.nodeRoom.isHeld() || context.roomQueue.isGiving()) return { requeueAfterMs: HELD_MS };
  if (!wereFresh) return "notFresh";
  const share = context.refillPause.share({ workload: workload.metadata.name, size, ready: readyNow, missing });
  const atOnce = poolFailures.isDegraded(name) ? 1 : Math.ceil(maxFill * share);
  // Up to `size` unready pods take no slot. More do, or a program that never stays ready would be started without end.
  const [warming, failed, unready] = [members.all("warming"), members.all("failed"), members.all("unready")];
  const held = warming.size + failed.size + Math.max(0, unready.size - size);
  const count = Math.min(missing, atOnce - held);
  if (count > 0) await startPods(count, { pool, size, workload, isStale: members.isStale }, context);
  const retryAfterMs = Math.max(poolFailures.waitMs(name), poolRefusals.waitMs(name));
  return retryAfterMs > 0 ? { requeueAfterMs: retryAfterMs } : undefined;
}

/** The pods of a pool, read from the cache at each call. */
interface PoolMembers {
  all(state: MemberState): Iterable<Pod> & { readonly size: number };
  /** How many are not stale. */
  current(state: MemberState): number;
  /** Whether the pod is of an old template or of unknown history, so that it has to be replaced. */
  isStale(pod: Pod): boolean;
  isOld(pod: Pod): boolean;
  /** Whether a pod of the state may be stale, without a look at each pod. */
  mayBeStale(state: MemberState): boolean;
}

function membersOf(pool: Pool, template: string, { informers, historySince }: PoolContext): PoolMembers {
  const { name } = pool.metadata;
  const all = (state: MemberState) => informers.pods.store.by("pool", `${name}/${state}`);
  const ofTemplate = (state: MemberState) => informers.pods.store.by("pool", `${name}/${state}/${template}`);
  const isOld = (pod: Pod) => pod.metadata.annotations?.[annotation.templateHash] !== template;
  return {
    all,
    current: (state) => ofTemplate(state).size - countUnknown(ofTemplate(state), historySince),
    isStale: (pod) => isOld(pod) || isOfUnknownHistory(pod, historySince),
    isOld,
    mayBeStale: (state) => historySince !== undefined || all(state).size > ofTemplate(state).size,
  };
}

/** Deletes pods above the pool's size, of any template; warming ones first. */
async function removeSurplus({ pool, size }: SizedPool, context: PoolContext): Promise<void> {
  const { store } = context.informers.pods;
  const { name } = pool.metadata;
  const kept = [...store.by("pool", `${name}/ready`), ...store.by("pool", `${name}/warming`)];
  await Promise.all(last(kept, kept.length - size).map((pod) => deleteUnclaimed(pod, context)));
}

/** Deletes the pods that no claim may have, pods above the pool's size, and one stale pod if new ones have no room. */
async function removeMembers(
  members: PoolMembers,
  { pool, size, workload }: SizedPool & { workload: Workload },
  context: PoolContext,
): Promise<void> {
  const { all, current, isStale, isOld, mayBeStale } = members;
  const isolation = mayBeStale("ready") ? isolationHash(workload, context.config) : undefined;
  const isIsolatedOtherwise = (pod: Pod) => isOld(pod) && isolationOf(pod) !== isolation;
  const useless = [
    ...(mayBeStale("ready") ? [...all("ready")].filter(isIsolatedOtherwise) : []),
    ...STARTING.filter(mayBeStale).flatMap((state) => [...all(state)].filter(isStale)),
  ];
  await Promise.all(useless.map((pod) => deleteUnclaimed(pod, context)));
  const surplus = [
    ...last(all("warming"), current("ready") + current("warming") - size),
    ...surplusReady(all("ready"), { isStale, count: all("ready").size - size }),
  ];
  await Promise.all(surplus.map((pod) => deleteUnclaimed(pod, context)));
  const hasStale = current("ready") < all("ready").size;
  if (hasStale && [...all("warming")].some(isUnschedulable)) await makeRoom({ pool, size }, isStale, context);
}

/** Starts the pods. If the last one was refused, starts one first, and the others only if that one is accepted. */
async function startPods(
  count: number,
  { pool, size, workload, isStale }: SizedPool & { workload: Workload; isStale: (pod: Pod) => boolean },
  context: PoolContext,
): Promise<void> {
  const { name } = pool.metadata;
  const wasRefused = context.poolRefusals.get(name) !== undefined;
  let isTaken = !wasRefused || (await start(pool, workload, context));
  if (isTaken) {
    const left = wasRefused ? count - 1 : count;
    const taken = await Promise.all(Array.from({ length: left }, () => start(pool, workload, context)));
    isTaken = taken.every(Boolean);
  }
  if (isTaken) context.poolRefusals.forget(name);
  else await makeRoom({ pool, size }, isStale, context);
}

function isUnschedulable(pod: Pod): boolean {
  return podState(pod).state === "unschedulable";
}

/** The newest `count` pods; none if `count` is negative. */
function last(bucket: Iterable<Pod>, count: number): Pod[] {
  return count > 0 ? [...bucket].slice(-count) : [];
}

/** The `count` ready pods to delete: stale ones first, then those that became ready last. */
function surplusReady(
  ready: Iterable<Pod>,
  { isStale, count }: { isStale: (pod: Pod) => boolean; count: number },
): Pod[] {
  if (count <= 0) return [];
  const stale = [...ready].filter(isStale).slice(0, count);
  const others = [...ready].filter((pod) => !isStale(pod));
  return [...stale, ...last(others, count - stale.length)];
}

/**
 * Deletes one stale pod if the cluster has no room for a new pod beside the stale ones: ready falls to `size - 1`, no
 * lower.
 */
async function makeRoom(
  { pool, size }: SizedPool,
  isStale: (pod: Pod) => boolean,
  context: PoolContext,
): Promise<void> {
  const ready = context.informers.pods.store.by("pool", `${pool.metadata.name}/ready`);
  if (ready.size < size) return;
  const stale = [...ready].find(isStale);
  if (stale !== undefined) await deleteUnclaimed(stale, context);
}

/** @returns whether the API server accepted the pod */
async function start(pool: Pool, workload: Workload, context: PoolContext): Promise<boolean> {
  const { cluster, config } = context;
  const { name } = pool.metadata;
  const podName = poolInstanceName({ workload: workload.metadata.name, suffix: nameSuffix(randomUUID()) });
  const labels = { [label.pool]: name, [label.poolStatus]: "warming" };
  const placement = { pool: { name, hasZones: hasZones(context) } };
  const pod = renderPod(workload, { name: podName, labels, annotations: {} }, config, { placement });
  try {
    await cluster(pods).create(pod);
    return true;
  } catch (error) {
    const refusal = podRefusal(error);
    if (refusal === undefined) throw error;
    // Remove the pod's name, which differs each time.
    const said = refusal.message.replace(`pods "${podName}" is forbidden: `, "");
    const message =
      refusal.reason === "QuotaExceeded"
        ? `the namespace has no room for another pod: release an instance, or raise its quota (${said})`
        : `the cluster refuses the pod: ${said}`;
    context.poolRefusals.refused(name, { ...refusal, message });
    return false;
  }
}
