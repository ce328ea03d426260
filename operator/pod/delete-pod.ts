import { pods } from "../../crds/client/built-in-resources.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { PodContext } from "./context.ts";

/** Deletes the pod, not another one of the same name. It is no error if the pod is gone already. */
export async function deletePod(pod: Pod, { cluster }: PodContext): Promise<void> {
  if (pod.metadata.deletionTimestamp === undefined) await cluster(pods).of(pod).delete();
}

/**
 * Deletes an unclaimed pod if it has not changed since it was read. If a claim takes the pod at the same time, the
 * claim changes it first, and the deletion fails.
 */
export async function deleteUnclaimed(pod: Pod, { cluster, reservedPods }: PodContext): Promise<void> {
  if (reservedPods.has(pod.metadata.uid ?? "")) return;
  await cluster(pods).of(pod).delete({ precondition: "resourceVersion" });
}
