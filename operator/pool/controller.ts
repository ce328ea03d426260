import type { Claim } from "../../crds/claim.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import { keyAt, keyOf } from "../../crds/client/watch/store.ts";
import type { Pod, ResourceQuota } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { type Pool, scalingOf } from "../../crds/pool.ts";
import type { Workload } from "../../crds/workload.ts";
import { hasNewPhase } from "../../crds/workload-phase.ts";
import { type Controller, type Watch, watch } from "../controller.ts";
import { podState } from "../pod/pod-state.ts";
import { hasMoreRoom } from "../room/quota-room.ts";
import { forgetPool, type PoolContext } from "./context.ts";
import { memberStates } from "./pool-member.ts";
import { type FreshMembers, reconcilePool } from "./reconcile-pool.ts";
import { writePoolStatus, writtenProblem } from "./write-pool-status.ts";

const POOL_STATUS_DELAY_MS = 200;
/** While claims arrive: each changes the status. */
const BUSY_POOL_STATUS_DELAY_MS = 1000;

/** Fills pools to their size. */
export function createPoolController(context: PoolContext): Controller<"pool"> {
  const { informers } = context;
  let membersAreFresh = false;
  let refreshing: Promise<void> | undefined;

  const fresh: FreshMembers = {
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
      watch(informers.pods, (change) => noteEnd(change, context)),
      watch(informers.resourceQuotas, (change) => noteRoom(change, context)),
      watch(informers.claims, (change) => noteArrival(change, context)),
      ...poolWatches(context),
    ],
    reconcile: (key) => reconcilePool(key, { context, fresh }),
  };
}

/** Writes the status of pools. It is a separate controller, so that slow creations of pods do not delay the status. */
export function createPoolStatusController(context: PoolContext): Controller<"poolStatus"> {
  const { informers, refillPause } = context;
  return {
    name: "poolStatus",
    priority: 3,
    concurrency: 2,
    // A burst of changes takes one write.
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
function poolWatches(context: PoolContext): Watch[] {
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
      const { object, previous } = change;
      const [now, before] = memberStates(change);
      const pools = new Set([object, previous].flatMap((pod) => pod?.metadata.labels?.[label.pool] ?? []));
      // If a person edits its label, a pod moves to another pool, and back when the operator repairs it.
      const isChanged =
        now !== before ||
        pools.size > 1 ||
        (now === "warming" && isUnschedulable(object) !== isUnschedulable(previous));
      return isChanged ? [...pools].map((name) => keyAt({ namespace: config.namespace, name })) : [];
    }),
  ];
}

/** Forgets the failures of a workload's pools when the workload changes: the change may have removed their cause. */
function forgetFailures(change: Change<Workload>, context: PoolContext): [] {
  if (!hasNewPhase(change)) return [];
  const { informers, poolFailures, poolRefusals, poolSizes, refillPause } = context;
  if (change.type === "deleted") {
    refillPause.forget(change.object.metadata.name);
    poolSizes.arrivals.forget(change.object.metadata.name);
  }
  for (const { metadata } of informers.pools.store.by("workload", change.object.metadata.name)) {
    poolFailures.forget(metadata.name);
    poolRefusals.forget(metadata.name);
  }
  return [];
}

/**
 * Forgets a pool's failures when the pool is edited. At the start, takes over the failures that the previous leader
 * wrote into its status.
 */
function resumeFailures({ type, object, previous }: Change<Pool>, context: PoolContext): [] {
  const { poolFailures, poolRefusals } = context;
  const { name, generation } = object.metadata;
  if (type === "deleted") {
    forgetPool(name, context);
    context.metrics.poolMisses.remove({ pool: name });
    return [];
  }
  if (previous?.metadata.generation === generation) return [];
  poolFailures.forget(name);
  poolRefusals.forget(name);
  const written = type === "added" ? writtenProblem(object) : undefined;
  if (written === undefined) return [];
  const { reason, message } = written;
  if (reason === "PodsFail") poolFailures.resume(name, message);
  else poolRefusals.resume(name, { reason, message });
  return [];
}

function noteStart(change: Change<Pod>, { metrics, poolFailures, poolSizes, serverNow }: PoolContext): [] {
  const pool = poolOf(change);
  const [now, before] = memberStates(change);
  if (pool === undefined || now !== "ready" || before === "ready") return [];
  poolFailures.started(pool, change.object);
  const { creationTimestamp = "" } = change.object.metadata;
  if (before === undefined) return [];
  const seconds = (serverNow() - Date.parse(creationTimestamp)) / 1000;
  metrics.warmUpSeconds.observe(seconds);
  if (before === "warming") poolSizes.refilled(pool, Math.max(0, seconds));
  return [];
}

/** Counts a claim that is new, or tried again, for the pools of its workload that scale by themselves. */
function noteArrival({ type, object, previous }: Change<Claim>, context: PoolContext): [] {
  const { metadata, spec } = object;
  const attempt = metadata.annotations?.[annotation.attempt];
  const isAgain = type === "modified" && attempt !== previous?.metadata.annotations?.[annotation.attempt];
  if (type !== "added" && !isAgain) return [];
  for (const pool of context.informers.pools.store.by("workload", spec.workloadRef)) {
    if (scalingOf(pool) === undefined) continue;
    // A new leader counts the claims of the last hour that are still there.
    const ageMs = isAgain ? 0 : Math.max(0, context.serverNow() - Date.parse(metadata.creationTimestamp ?? ""));
    context.poolSizes.arrivals.arrived(spec.workloadRef, ageMs);
    break;
  }
  return [];
}

function noteEnd({ type }: Change<Pod>, { poolRefusals }: PoolContext): [] {
  if (type === "deleted") poolRefusals.podGone();
  return [];
}

function noteRoom(change: Change<ResourceQuota>, { poolRefusals, poolSizes }: PoolContext): [] {
  if (!hasMoreRoom(change)) return [];
  poolRefusals.roomMade();
  poolSizes.roomMade();
  return [];
}

function poolOf({ object, previous }: Change<Pod>): string | undefined {
  return object.metadata.labels?.[label.pool] ?? previous?.metadata.labels?.[label.pool];
}

function isUnschedulable(pod: Pod | undefined): boolean {
  return pod !== undefined && podState(pod).state === "unschedulable";
}

/**
 * Reads all unclaimed pods of all pools from the API server into the cache. A new leader does this before it fills a
 * pool: the watch may not show the last pods of its predecessor yet, and the pool would create them again.
 */
async function refreshMembers({ cluster }: PoolContext): Promise<void> {
  const labelSelector = `${label.managed}=true,${label.pool}`;
  await cluster(pods).list({ labelSelector, refresh: true });
}
