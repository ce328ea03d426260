import { steadyClock } from "../../crds/client/clock.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import { keyAt, keyOf } from "../../crds/client/watch/store.ts";
import type { Pod, ResourceQuota } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import { type Controller, watch } from "../controller.ts";
import type { IndexedBy } from "../informers.ts";
import { deleteUnclaimed } from "../pod/delete-pod.ts";
import type { PoolContext } from "../pool/context.ts";
import { memberState } from "../pool/pool-member.ts";
import type { ReconcileResult } from "../queue.ts";
import type { roomIndexes } from "./context.ts";
import { stuckIndex } from "./node-room.ts";
import { hasMoreRoom, type PodNeeds, useOf } from "./quota-room.ts";
import { isTaken, type RoomPlan } from "./room-queue.ts";

/** The only key: one plan is for all claims. */
export const ROOM_KEY = "";
const BATCH_MS = 50;
/** A plan of 10 000 claims takes some 70 ms. */
const BATCH_MS_PER_CLAIM = 0.02;
const LOOK_MS = 5000;
/** A pod that is deleted and still there then is on a node that does not answer: it makes no room. */
const LEAVING_MS = 60_000;
/** What a pod used is counted by then. */
const COUNTED_MS = 5000;
/** Pods that end at once. */
const MOST_GIVEN = 64;

export interface RoomContext extends PoolContext {
  informers: PoolContext["informers"] & IndexedBy<typeof roomIndexes>;
}

/** Gives room in the quotas of the namespace to the claims that wait for it, and takes it from pools, as on nodes. */
export function createRoomController(context: RoomContext): Controller<"room"> {
  const { informers, nodeRoom, roomQueue } = context;
  /** The pods that were deleted to make room in quotas, by uid, and until when that is expected. */
  const leaving = new Map<string, { readonly pod: Pod; until: number }>();

  function noteRoom(change: Change<ResourceQuota>): [] {
    if (!hasMoreRoom(change)) return [];
    for (const [uid, { pod }] of leaving) if (isGone(pod)) leaving.delete(uid);
    roomQueue.roomMade();
    return [];
  }

  const isGone = (pod: Pod): boolean => informers.pods.store.get(keyOf(pod))?.metadata.uid !== pod.metadata.uid;

  function noteStuck({ type, object, previous }: Change<Pod>): string[] {
    const isStuck = type !== "deleted" && stuckIndex(object) !== undefined;
    const wasStuck = previous !== undefined && stuckIndex(previous) !== undefined;
    return isStuck === wasStuck ? [] : [ROOM_KEY];
  }

  async function reconcile(): Promise<ReconcileResult> {
    const now = steadyClock.now();
    for (const [uid, one] of leaving) {
      if (isGone(one.pod)) one.until = Math.min(one.until, now + COUNTED_MS);
      if (now >= one.until) leaving.delete(uid);
    }
    const stuck = informers.pods.store.by("stuck", "");
    const forQuotas = new Set(giveTurns());
    const ending = new Set([...forQuotas, ...giveNodes(stuck)]);
    roomQueue.makeRoom(forQuotas.size + leaving.size > 0);
    const ends = await Promise.allSettled([...ending].map((pod) => end(pod, forQuotas.has(pod))));
    const failed = ends.find(({ status }) => status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
    return roomQueue.size + stuck.size > 0 ? { requeueAfterMs: LOOK_MS } : undefined;
  }

  async function end(pod: Pod, isForQuota: boolean): Promise<void> {
    const { uid = "" } = pod.metadata;
    if (!(await deleteUnclaimed(pod, context))) return;
    if (isForQuota) leaving.set(uid, { pod, until: steadyClock.now() + LEAVING_MS });
    noteGiven(pod);
  }

  function noteGiven({ metadata }: Pod): void {
    const name = metadata.labels?.[label.pool] ?? "";
    const pool = informers.pools.store.get(keyAt({ namespace: context.config.namespace, name }));
    const message = `warm pods end to make room for claims, such as pod ${metadata.name}: raise the quota or add nodes`;
    if (pool !== undefined) context.poolEvents.note(pool, { reason: "RoomGiven", message });
  }

  /** @returns the pods that are to end for those whose turn it is not */
  function giveTurns(): Pod[] {
    if (roomQueue.size === 0) return [];
    const plan = roomQueue.plan({
      quotas: informers.resourceQuotas.store.values(),
      leaving: [...leaving.values()].map(({ pod }) => pod),
      instancesOf: (tenantId) => informers.pods.store.by("held", tenantId).size,
    });
    for (const claim of plan.turns) context.enqueueClaim(claim);
    return plan.short.length === 0 ? [] : podsToGive(plan, sparePods(context));
  }

  /** @returns the pods that are to end for those that no node can take */
  function giveNodes(stuck: Iterable<Pod> & { readonly size: number }): Pod[] {
    // Pods that have lost their readiness may be on a lost node.
    const isOnGoodNode = (pod: Pod) => memberState(pod) !== "unready";
    return nodeRoom.plan(stuck, stuck.size === 0 ? [] : sparePods(context).filter(isOnGoodNode));
  }

  return {
    ...{ name: "room", priority: 0, concurrency: 1, reconcile },
    batchMs: () => Math.max(BATCH_MS, roomQueue.size * BATCH_MS_PER_CLAIM),
    watches: [watch(informers.resourceQuotas, noteRoom), watch(informers.pods, noteStuck)],
  };
}

/** The pods whose end makes room for claims, in order; for a claim that would not fit even then, none end. */
export function podsToGive({ short, ledger }: Pick<RoomPlan, "short" | "ledger">, spare: readonly Pod[]): Pod[] {
  const left = new Set(spare);
  const given: Pod[] = [];
  const hopeless = new Set<PodNeeds>();
  for (const { pod: needs, reserve } of short) {
    if (given.length >= MOST_GIVEN) break;
    if (hopeless.has(needs)) continue;
    const chosen: Pod[] = [];
    for (const pod of left) {
      const lacks = ledger.lacks(needs);
      if (lacks.length === 0) break;
      if (!lacks.some((resource) => useOf(pod, resource) > 0)) continue;
      ledger.give(pod);
      chosen.push(pod);
    }
    if (isTaken(needs, ledger)) {
      given.push(...chosen);
      for (const pod of chosen) left.delete(pod);
      reserve();
    } else {
      hopeless.add(needs);
      for (const pod of chosen) ledger.take(pod);
    }
  }
  return given;
}

/** The pods that no claim has or was promised: those that are not ready first, then those of the largest pools. */
function sparePods({ informers, promisedPods, reservedPods }: RoomContext): Pod[] {
  const { store } = informers.pods;
  const isSpare = ({ metadata: { uid = "" } }: Pod) =>
    promisedPods.claimOf(uid) === undefined && !reservedPods.has(uid);
  const pools = [...informers.pools.store.values()].map(({ metadata: { name } }) => {
    const starting = [...store.by("pool", `${name}/warming`), ...store.by("pool", `${name}/unready`)];
    const ready = [...store.by("pool", `${name}/ready`)];
    return { starting, ready: ready.reverse() };
  });
  pools.sort((a, b) => b.ready.length - a.ready.length);
  return [...pools.flatMap(({ starting }) => starting.reverse()), ...pools.flatMap(({ ready }) => ready)].filter(
    isSpare,
  );
}
