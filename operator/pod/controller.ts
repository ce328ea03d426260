import type { Claim } from "../../crds/claim.ts";
import { isNotFound } from "../../crds/client/api-error.ts";
import { listAll } from "../../crds/client/cluster-client.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import { keyOf } from "../../crds/client/watch/store.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import type { Pool } from "../../crds/pool.ts";
import type { OperatorContext } from "../context.ts";
import { type Controller, watch } from "../controller.ts";
import { memberState, memberStatesOfPools } from "../pool/pool-member.ts";
import { reconcileMember } from "../pool/reconcile-member.ts";
import type { ReconcileResult } from "../queue.ts";
import { deletePod } from "./delete-pod.ts";

/** Looks after pods that no claim looks after. */
export function createPodController(context: OperatorContext): Controller<"pod"> {
  const { informers } = context;
  return {
    name: "pod",
    priority: 3,
    concurrency: 4,
    watches: [
      watch(informers.pods, (change) => changedPod(change, context)),
      watch(informers.claims, (change) => podsOfDeletedClaim(change, context)),
      watch(informers.pools, (change) => podsOfDeletedPool(change, context)),
    ],
    reconcile: (key) => reconcilePod(key, context),
  };
}

function* changedPod({ type, object }: Change<Pod>, { informers }: OperatorContext): Iterable<string> {
  if (type === "deleted") return;
  const claimUid = object.metadata.annotations?.[annotation.claimUid];
  const isOrphan = claimUid !== undefined && informers.claims.store.by("uid", claimUid).size === 0;
  if (isOrphan || memberState(object) !== undefined) yield keyOf(object);
}

function* podsOfDeletedClaim({ type, object }: Change<Claim>, { informers }: OperatorContext): Iterable<string> {
  if (type !== "deleted") return;
  for (const pod of informers.pods.store.by("claimUid", object.metadata.uid ?? "")) yield keyOf(pod);
}

function* podsOfDeletedPool({ type, object }: Change<Pool>, { informers }: OperatorContext): Iterable<string> {
  if (type !== "deleted") return;
  for (const state of memberStatesOfPools) {
    for (const pod of informers.pods.store.by("pool", `${object.metadata.name}/${state}`)) yield keyOf(pod);
  }
}

/**
 * Looks after what no claim looks after: a pool's warm pods, and claimed pods whose claim is gone, which a crash or a
 * forced deletion can leave behind.
 */
async function reconcilePod(key: string, context: OperatorContext): Promise<ReconcileResult> {
  const pod = context.informers.pods.store.get(key);
  if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return undefined;
  const claimUid = pod.metadata.annotations?.[annotation.claimUid];
  const pool = pod.metadata.labels?.[label.pool];
  if (claimUid === undefined) return pool === undefined ? undefined : reconcileMember(pod, pool, context);
  if (context.informers.claims.store.by("uid", claimUid).size > 0) return undefined;
  if (await claimExists(pod, claimUid, context)) return undefined;
  await deletePod(pod, context);
  context.log.info({ pod: pod.metadata.name, claimUid }, "pod without a claim deleted");
  return undefined;
}

/**
 * Asks the API server, since the store may not have seen the claim yet: by the name in the pod's annotation, and where
 * another claim has that or none, among all of the tenant.
 */
async function claimExists(pod: Pod, uid: string, { client, config }: OperatorContext): Promise<boolean> {
  const { namespace } = config;
  const { annotations, labels } = pod.metadata;
  const name = annotations?.[annotation.claim] ?? "";
  try {
    if (name !== "" && (await client.get(claims, { namespace, name })).metadata.uid === uid) return true;
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  const tenant = labels?.[label.tenant];
  if (tenant === undefined) return false;
  const ofTenant = await listAll(claims, { client, namespace, labelSelector: `${label.tenant}=${tenant}` });
  return ofTenant.some(({ metadata }) => metadata.uid === uid);
}
