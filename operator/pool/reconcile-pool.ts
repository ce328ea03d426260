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
import type { ReconcileResult } from "../queue.ts";
import type { PoolContext } from "./context.ts";
import { isolationOf, type MemberState } from "./pool-member.ts";

const DEFAULT_FILL_CONCURRENCY = 5;
const RECHECK_MS = 1000;
/** What cannot be claimed now, but may be later. */
const STARTING: readonly MemberState[] = ["warming", "unready"];

/** Whether the store has every member that a former leader created. */
export interface FreshMembers {
  areFresh(): boolean;
  /** Sees to it that they are. */
  refresh(): Promise<void>;
}

/**
 * Keeps a pool at its size.
 *
 * The pods that it has created are in the store before the next run, so a store whose watch lags never makes it create
 * twice. Pods of an old template go as pods of the new one become ready, so a roll never takes the pool below its size,
 * unless their isolation is another than the workload asks for now: those no claim may have, and they go at once. Pods
 * of unknown history, which no claim may have either, go as pods of an old template do: they can be all that there are. A
 * pool that is too large loses pods that are still warming first. Pods that were ready and are not any more count for
 * nothing: others are started in their place at once, and where they recover, the pool is too large for a moment.
 */
export async function reconcilePool(
  key: string,
  options: { context: PoolContext; fresh: FreshMembers },
): Promise<ReconcileResult> {
  const { context, fresh } = options;
  const { informers, config, poolFailures, poolRefusals } = context;
  // Another pool's run can refresh them after this one has counted.
  const wereFresh = fresh.areFresh();
  const pool = informers.pools.store.get(key);
  if (pool === undefined || pool.metadata.deletionTimestamp !== undefined) return undefined;
  const workload = informers.workloads.store.get({ namespace: config.namespace, name: pool.spec.workloadRef });
  const template = workload !== undefined && isReadyToUse(workload) ? templateHash(workload, config) : undefined;
  // The workload's next event starts the next run. Its pods stay, as many as the pool may have.
  if (workload === undefined || template === undefined) {
    await removeSurplus(pool, context);
    return undefined;
  }
  const members = membersOf(pool, template, context);
  await removeMembers(members, { pool, workload }, context);

  const { name } = pool.metadata;
  const size = pool.spec.size;
  const maxFill = pool.spec.maxFillConcurrency ?? DEFAULT_FILL_CONCURRENCY;
  const [readyNow, warmingNow] = [members.current("ready"), members.current("warming")];
  const missing = size - readyNow - warmingNow;
  if (missing <= 0) {
    context.refillPause.filled(name);
    poolRefusals.forget(name);
    // A pod that changed at this moment was not deleted, and not every change of a pod starts a run.
    const isTooLarge = missing < 0 || members.all("ready").size > size;
    return isTooLarge ? { requeueAfterMs: RECHECK_MS } : undefined;
  }
  const pauseMs = context.refillPause.waitMs({ name, workload: workload.metadata.name, size, ready: readyNow });
  const waitMs = Math.max(pauseMs, poolFailures.waitMs(name), poolRefusals.waitMs(name));
  if (waitMs > 0) return { requeueAfterMs: waitMs };
  if (!wereFresh) {
    await fresh.refresh();
    return reconcilePool(key, options);
  }
  const share = context.refillPause.share({ workload: workload.metadata.name, size, ready: readyNow, missing });
  const atOnce = poolFailures.isDegraded(name) ? 1 : Math.ceil(maxFill * share);
  // Pods that are unready hold no slot, but no more of them than the pool's size: a program that never stays ready would
  // be started again and again.
  const [warming, failed, unready] = [members.all("warming"), members.all("failed"), members.all("unready")];
  const held = warming.size + failed.size + Math.max(0, unready.size - size);
  const count = Math.min(missing, atOnce - held);
  if (count > 0) await startPods(count, { pool, workload, isStale: members.isStale }, context);
  const retryAfterMs = Math.max(poolFailures.waitMs(name), poolRefusals.waitMs(name));
  return retryAfterMs > 0 ? { requeueAfterMs: retryAfterMs } : undefined;
}

/** The pods of a pool, as the store has them at the moment of each question. */
interface PoolMembers {
  all(state: MemberState): Iterable<Pod> & { readonly size: number };
  /** How many are not stale. */
  current(state: MemberState): number;
  /** Whether the pod is of an old template, or of unknown history, so that another one takes its place. */
  isStale(pod: Pod): boolean;
  isOld(pod: Pod): boolean;
  /** Whether one may be stale, without a look at each. */
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

/** Deletes the pods that are too many, whatever their template; those that are warming first. */
async function removeSurplus({ metadata: { name }, spec }: Pool, context: PoolContext): Promise<void> {
  const { store } = context.informers.pods;
  const kept = [...store.by("pool", `${name}/ready`), ...store.by("pool", `${name}/warming`)];
  await Promise.all(last(kept, kept.length - spec.size).map((pod) => deleteUnclaimed(pod, context)));
}

/** Deletes the pods that no claim may have, those that are too many, and where there is no room one stale pod. */
async function removeMembers(
  members: PoolMembers,
  { pool, workload }: { pool: Pool; workload: Workload },
  context: PoolContext,
): Promise<void> {
  const { all, current, isStale, isOld, mayBeStale } = members;
  const { size } = pool.spec;
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
  if (hasStale && [...all("warming")].some(isUnschedulable)) await makeRoom(pool, isStale, context);
}

/** Starts one pod first where the last one was refused, and the others only when that one is taken. */
async function startPods(
  count: number,
  { pool, workload, isStale }: { pool: Pool; workload: Workload; isStale: (pod: Pod) => boolean },
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
  else await makeRoom(pool, isStale, context);
}

function isUnschedulable(pod: Pod): boolean {
  return podState(pod).state === "unschedulable";
}

/** The `count` pods that came last; none when `count` is negative. */
function last(bucket: Iterable<Pod>, count: number): Pod[] {
  return count > 0 ? [...bucket].slice(-count) : [];
}

/** Which ready pods are too many: stale ones first, then those that became ready last. */
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
 * Where there is no room for a new pod beside the stale ones, one stale pod goes first: ready falls to `size - 1`, no
 * further.
 */
async function makeRoom(pool: Pool, isStale: (pod: Pod) => boolean, context: PoolContext): Promise<void> {
  const ready = context.informers.pods.store.by("pool", `${pool.metadata.name}/ready`);
  if (ready.size < pool.spec.size) return;
  const stale = [...ready].find(isStale);
  if (stale !== undefined) await deleteUnclaimed(stale, context);
}

/** @returns whether the API server took the pod */
async function start(pool: Pool, workload: Workload, context: PoolContext): Promise<boolean> {
  const { cluster, config } = context;
  const { name } = pool.metadata;
  const podName = poolInstanceName({ workload: workload.metadata.name, suffix: nameSuffix(randomUUID()) });
  const labels = { [label.pool]: name, [label.poolStatus]: "warming" };
  const pod = renderPod(workload, { name: podName, labels, annotations: {} }, config);
  try {
    await cluster(pods).create(pod);
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
    return false;
  }
}
