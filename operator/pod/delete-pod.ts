import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { PodContext } from "./context.ts";

/** Deletes exactly this pod, not another that has taken its name; that it is gone already is no error. */
export async function deletePod(pod: Pod, { client, informers }: PodContext): Promise<void> {
  const { name, namespace = "", uid, deletionTimestamp } = pod.metadata;
  if (deletionTimestamp !== undefined) return;
  try {
    const deleted = await client.delete(pods, { namespace, name }, uid === undefined ? {} : { uid });
    if (deleted !== undefined) informers.pods.put(deleted);
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}

/**
 * Deletes a pod that nobody has claimed, on the condition that it is still as it was read: a claim that takes it at
 * this moment changes it, and wins.
 */
export async function deleteUnclaimed(pod: Pod, { client, informers, reservedPods }: PodContext): Promise<void> {
  const { name, namespace = "", uid = "", resourceVersion } = pod.metadata;
  if (reservedPods.has(uid)) return;
  const precondition = { uid, ...(resourceVersion !== undefined && { resourceVersion }) };
  try {
    const deleted = await client.delete(pods, { namespace, name }, precondition);
    if (deleted !== undefined) informers.pods.put(deleted);
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
  }
}
