import type { Claim } from "../../crds/claim.ts";
import { isShown } from "../../crds/claims/claim-pod.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import { keyOf } from "../../crds/client/watch/store.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import type { Pool } from "../../crds/pool.ts";
import { type Controller, watch } from "../controller.ts";
import { forgetPod } from "../pod/context.ts";
import { deletePod, deleteUnclaimed } from "../pod/delete-pod.ts";
import { isBoundTo, isInstance, markChanges, ownerOf } from "../pod/pod-identity.ts";
import { noteEdit, repairPod } from "../pod/repair-pod.ts";
import type { ReconcileResult } from "../queue.ts";
import type { PoolContext } from "./context.ts";
import { memberStatesOfPools, neverHadTenant } from "./pool-member.ts";
import { reconcileMember } from "./reconcile-member.ts";

/** Reconciles unclaimed pods, and the labels and annotations of all pods. */
export function createPodController(context: PoolContext): Controller<"pod"> {
  const { informers } = context;
  return {
    name: "pod",
    priority: 3,
    concurrency: 4,
    watches: [
      watch(informers.pods, (change) => changedPod(change, context)),
      watch(informers.claims, (change) => podsOfClaim(change, context)),
      watch(informers.pools, (change) => podsOfDeletedPool(change, context)),
    ],
    reconcile: (key) => reconcilePod(key, context),
  };
}

function* changedPod(change: Change<Pod>, context: PoolContext): Iterable<string> {
  const { type, object } = change;
  if (type === "deleted") {
    forgetPod(object, context);
    context.seenTimes.forget(object.metadata.uid ?? "");
    return;
  }
  noteEdit(change, context);
  const owner = ownerOf(object, context);
  const isNoted = context.editedPods.has(object.metadata.uid ?? "");
  if (owner === undefined && !isInstance(object) && !isNoted) return;
  if (owner === undefined || isNoted || markChanges(object, { owner }) !== undefined) yield keyOf(object);
}

function* podsOfClaim({ type, object: claim }: Change<Claim>, { informers }: PoolContext): Iterable<string> {
  const { store } = informers.pods;
  if (type === "deleted") {
    for (const pod of store.by("claimUid", claim.metadata.uid ?? "")) yield keyOf(pod);
    return;
  }
  const shown = store.get({ namespace: claim.metadata.namespace, name: claim.status?.instanceId ?? "" });
  if (shown === undefined || !isShown(shown, claim)) return;
  if (markChanges(shown, { owner: claim }) !== undefined) yield keyOf(shown);
}

function* podsOfDeletedPool({ type, object }: Change<Pool>, { informers }: PoolContext): Iterable<string> {
  if (type !== "deleted") return;
  for (const state of memberStatesOfPools) {
    for (const pod of informers.pods.store.by("pool", `${object.metadata.name}/${state}`)) yield keyOf(pod);
  }
}

/**
 * Repairs a pod that another client edited. Reconciles unclaimed pods of a pool. Deletes pods that belong to no claim
 * and no pool: a crash, a forced deletion or an edit can leave them behind.
 */
async function reconcilePod(key: string, context: PoolContext): Promise<ReconcileResult> {
  const pod = context.informers.pods.store.get(key);
  if (pod === undefined) return undefined;
  // The pod's state before an edit shows its owner: an edit can remove all marks, or name another claim in all of them.
  const known = context.editedPods.get(pod.metadata.uid ?? "") ?? pod;
  const owner = ownerOf(known, context);
  if (owner === undefined && !isInstance(known)) return undefined;
  if (await repairPod(pod, owner, context)) return undefined;
  if (owner !== undefined) return undefined;
  if (pod.metadata.deletionTimestamp !== undefined) {
    // Somebody else deleted a warm pod: its launcher would wait for files to be saved, and it has none.
    if (neverHadTenant(pod) && neverHadTenant(known)) await deletePod(pod, context);
    return undefined;
  }
  const pool = pod.metadata.labels?.[label.pool];
  if (pool !== undefined && neverHadTenant(pod)) return reconcileMember(pod, pool, context);
  const unseen = await readOwner(pod, context);
  if (unseen !== undefined) {
    await repairPod(pod, unseen, context);
    return undefined;
  }
  await deleteUnclaimed(pod, context);
  context.log.info({ pod: pod.metadata.name }, "pod without a claim deleted");
  return undefined;
}

/**
 * The claim that owns the pod. Asks the API server, since the cache may not show the claim yet: first by the name in
 * the pod's annotation, then among all claims.
 */
async function readOwner(pod: Pod, { cluster }: PoolContext): Promise<Claim | undefined> {
  const name = pod.metadata.annotations?.[annotation.claim] ?? "";
  const isOwner = (claim: Claim) => isShown(pod, claim) || isBoundTo(pod, claim);
  const named = name === "" ? undefined : await cluster(claims).named(name).find();
  if (named !== undefined && isOwner(named)) return named;
  return (await cluster(claims).list()).items.find(isOwner);
}
