import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { OperatorContext } from "../context.ts";

/** Deletes exactly this pod, not another that has taken its name; one that is gone already is well. */
export async function deletePod(pod: Pod, { client, informers }: OperatorContext): Promise<void> {
  const { name, namespace = "", uid, deletionTimestamp } = pod.metadata;
  if (deletionTimestamp !== undefined) return;
  try {
    const deleted = await client.delete(pods, { namespace, name }, uid === undefined ? {} : { uid });
    if (deleted !== undefined) informers.pods.put(deleted);
  } catch (error) {
    if (!isNotFound(error) && !isConflict(error)) throw error;
  }
}
