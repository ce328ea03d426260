import { isNotFound } from "../../crds/client/api-error.ts";
import { listAll } from "../../crds/client/cluster-client.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { deletePod } from "../claim/delete-pod.ts";
import type { OperatorContext } from "../context.ts";
import { tendMember } from "../pool/tend-member.ts";
import type { ReconcileResult } from "../queue.ts";

/**
 * Looks after what no claim looks after: a pool's warm pods, and claimed pods whose claim is gone, which a crash or a forced deletion
 * can leave behind.
 */
export async function reconcilePod(key: string, context: OperatorContext): Promise<ReconcileResult> {
  const pod = context.informers.pods.store.get(key);
  if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return undefined;
  const claimUid = pod.metadata.annotations?.[annotation.claimUid];
  const pool = pod.metadata.labels?.[label.pool];
  if (claimUid === undefined) return pool === undefined ? undefined : tendMember(pod, pool, context);
  if (context.informers.claims.store.by("uid", claimUid).size > 0) return undefined;
  if (await claimExists(pod, claimUid, context)) return undefined;
  await deletePod(pod, context);
  context.log.info({ pod: pod.metadata.name, claimUid }, "pod without a claim deleted");
  return undefined;
}

/**
 * Asks the API server, since the store may not have seen the claim yet: by the name that stands on the pod, and where another claim has
 * that or none, among all of the tenant.
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
