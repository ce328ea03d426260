import { randomUUID } from "node:crypto";
import { ApiError } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { listAll } from "../../crds/client/cluster-client.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import { keyOf } from "../../crds/client/watch/store.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { nameSuffix, poolInstanceName } from "../../crds/names.ts";
import type { Pool } from "../../crds/pool.ts";
import type { Workload } from "../../crds/workload.ts";
import type { OperatorContext } from "../context.ts";
import { type Controller, type Watch, watch } from "../controller.ts";
import { deleteUnclaimed } from "../pod/delete-pod.ts";
import { podState } from "../pod/pod-state.ts";
import { isolationHash, renderPod, templateHash } from "../pod/render-pod.ts";
import type { ReconcileResult } from "../queue.ts";
import { hasNewPhase, isReadyToUse } from "../workload/readiness.ts";
import { isolationOf, memberStates } from "./pool-member.ts";
import { writePoolStatus, writtenFailure } from "./write-pool-status.ts";

const DEFAULT_FILL_CONCURRENCY = 5;
const POOL_STATUS_DELAY_MS = 200;
/** While claims come, each of which changes it. */
const BUSY_POOL_STATUS_DELAY_MS = 1000;

/** Whether the store has every member that a former leader created. */
interface Members {
  areFresh(): boolean;
  /** Sees to it that they are. */
  refresh(): Promise<void>;
}

/** Keeps pools at their size. */
export function createPoolController(context: OperatorContext): Controller<"pool"> {
  const { informers } = context;
  let membersAreFresh = false;
  let refreshing: Promise<void> | undefined;

  const members: Members = {
    areFresh: () => membersAreFresh,
    async refresh() {
      if (membersAreFresh) return;
      refreshing ??= refreshMembers(context).finally(() => {
        refreshing = undefined;
      });
      await refreshing;
      membersAreFresh = true;
    },
  };

  return {
    name: "pool",
    priority: 2,
    concurrency: 8,
    watches: [
      watch(informers.workloads, (change) => forgetFailures(change, context)),
      watch(informers.pools, (change) => resumeFailures(change, context)),
      watch(informers.pods, (change) => noteStart(change, context)),
      ...poolWatches(context),
    ],
    reconcile: (key) => reconcilePool(key, { context, members }),
  };
}

/** Writes the status of pools. A controller of its own, so that a status is not late where pods are created slowly. */
export function createPoolStatusController(context: OperatorContext): Controller<"poolStatus"> {
  const { informers, refillPause } = context;
  return {
    name: "poolStatus",
    priority: 3,
    concurrency: 2,
    // A burst of changes is one write.
    batchMs(key) {
      const workload = informers.pools.store.get(key)?.spec.workloadRef;
      const isBusy = workload !== undefined && !refillPause.isCalm(workload);
      return isBusy ? BUSY_POOL_STATUS_DELAY_MS : POOL_STATUS_DELAY_MS;
    },
    watches: poolWatches(context),
    reconcile: (key) => writePoolStatus(key, context),
  };
}

/** The watches whose changes can change how many pods a pool has or lacks. */
function poolWatches(context: OperatorContext): Watch[] {
  const { config, informers } = context;
  return [
    watch(informers.workloads, (change) => {
      if (!hasNewPhase(change)) return [];
      return [...informers.pools.store.by("workload", change.object.metadata.name)].map(keyOf);
    }),
    watch(informers.pools, ({ type, object, previous }) => {
      const isEdited = previous?.metadata.generation !== object.metadata.generation;
      return type !== "deleted" && isEdited ? [keyOf(object)] : [];
    }),
    watch(informers.pods, (change) => {
      const pool = poolOf(change);
      const [now, before] = memberStates(change);
      const isChanged =
        now !== before || (now === "warming" && isUnschedulable(change.object) !== isUnschedulable(change.previous));
      return pool !== undefined && isChanged ? [`${config.namespace}/${pool}`] : [];
    }),
  ];
}

/** Forgets the failures of a workload's pools when the workload changes, which may have removed their cause. */
function forgetFailures(change: Change<Workload>, { informers, poolFailures }: OperatorContext): [] {
  if (!hasNewPhase(change)) return [];
  for (const { metadata } of informers.pools.store.by("workload", change.object.metadata.name))
    poolFailures.forget(metadata.name);
  return [];
}

/**
 * Forgets a pool's failures when it is edited; at the start, takes over those that the former leader wrote into its
 * status.
 */
function resumeFailures({ type, object, previous }: Change<Pool>, { poolEvents, poolFailures }: OperatorContext): [] {
  const { name, generation } = object.metadata;
  if (type === "deleted") poolEvents.forget(name);
  if (type !== "deleted" && previous?.metadata.generation !== generation) {
    poolFailures.forget(name);
    const failure = type === "added" ? writtenFailure(object) : undefined;
    if (failure !== undefined) poolFailures.resume(name, failure);
  }
  return [];
}

function noteStart(change: Change<Pod>, { metrics, poolFailures }: OperatorContext): [] {
  const pool = poolOf(change);
  const [now, before] = memberStates(change);
  if (pool === undefined || now !== "ready" || before === "ready") return [];
  poolFailures.started(pool, change.object);
  const { creationTimestamp = "" } = change.object.metadata;
  if (before !== undefined) metrics.warmUpSeconds.observe((Date.now() - Date.parse(creationTimestamp)) / 1000);
  return [];
}

function poolOf({ object, previous }: Change<Pod>): string | undefined {
  return object.metadata.labels?.[label.pool] ?? previous?.metadata.labels?.[label.pool];
}

function isUnschedulable(pod: Pod | undefined): boolean {
  return pod !== undefined && podState(pod).state === "unschedulable";
}

/**
 * Reads every unclaimed pod of every pool from the API server into the store. A new leader does this before it fills a
 * pool: what its predecessor created last may not have come by the watch yet, and would be created again.
 */
async function refreshMembers({ client, config, informers }: OperatorContext): Promise<void> {
  const labelSelector = `${label.managed}=true,${label.pool}`;
  for (const pod of await listAll(pods, { client, namespace: config.namespace, labelSelector }))
    informers.pods.put(pod);
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
async function reconcilePool(
  key: string,
  options: { context: OperatorContext; members: Members },
): Promise<ReconcileResult> {
  const { context, members } = options;
  const { informers, config } = context;
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
    return undefined;
  }
  const pauseMs = context.refillPause.waitMs({ name, workload: workload.metadata.name, size, ready: readyNow });
  const waitMs = Math.max(pauseMs, (context.poolFailures.get(name)?.nextTryAt ?? 0) - Date.now());
  if (waitMs > 0) return { requeueAfterMs: waitMs };
  if (!wereFresh) {
    await members.refresh();
    return reconcilePool(key, options);
  }
  const share = context.refillPause.share({ workload: workload.metadata.name, size, ready: readyNow, missing });
  const atOnce = context.poolFailures.isDegraded(name) ? 1 : Math.ceil(maxFill * share);
  // Pods that are unready hold no slot, but no more of them than the pool's size: a program that never stays ready would
  // be started again and again.
  const held = counted("warming").size + counted("failed").size + Math.max(0, counted("unready").size - size);
  const room = atOnce - held;
  await Promise.all(Array.from({ length: Math.min(missing, Math.max(0, room)) }, () => start(pool, workload, context)));
  const retryAfterMs = (context.poolFailures.get(name)?.nextTryAt ?? 0) - Date.now();
  return retryAfterMs > 0 ? { requeueAfterMs: retryAfterMs } : undefined;
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

async function start(pool: Pool, workload: Workload, context: OperatorContext): Promise<void> {
  const { client, config, informers } = context;
  const { name } = pool.metadata;
  const podName = poolInstanceName({ workload: workload.metadata.name, suffix: nameSuffix(randomUUID()) });
  const labels = { [label.pool]: name, [label.poolStatus]: "warming" };
  const pod = renderPod(workload, { name: podName, labels, annotations: {} }, config);
  try {
    informers.pods.put(await client.create(pods, pod));
  } catch (error) {
    // Refused: by a quota, a policy or the schema. It may be allowed later.
    if (!(error instanceof ApiError) || ![400, 403, 422].includes(error.status)) throw error;
    context.poolFailures.failed(name, `the cluster refuses the pod: ${error.message}`);
    await makeRoom(pool, templateHash(workload, config), context);
  }
}
