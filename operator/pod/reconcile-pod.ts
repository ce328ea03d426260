import { isNotFound } from "../../crds/client/api-error.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import { deletePod } from "../claim/delete-pod.ts";
import type { OperatorContext } from "../context.ts";

/** Deletes a claimed pod whose claim is gone, which a crash or a forced deletion can leave behind. */
export async function reconcilePod(key: string, context: OperatorContext): Promise<undefined> {
  const pod = context.informers.pods.store.get(key);
  const claimUid = pod?.metadata.annotations?.[annotation.claimUid];
  if (pod === undefined || claimUid === undefined || pod.metadata.deletionTimestamp !== undefined) return undefined;
  if (context.informers.claims.store.by("uid", claimUid).size > 0) return undefined;
  if (await claimExists(pod, claimUid, context)) return undefined;
  await deletePod(pod, context);
  context.log.info({ pod: pod.metadata.name, claimUid }, "pod without a claim deleted");
  return undefined;
}

/** Asks the API server, since the store may not have seen the claim yet. */
async function claimExists(pod: Pod, uid: string, { client, config }: OperatorContext): Promise<boolean> {
  const name = pod.metadata.annotations?.[annotation.claim] ?? "";
  if (name === "") return false;
  try {
    const claim = await client.get(claims, { namespace: config.namespace, name });
    return claim.metadata.uid === uid;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}
