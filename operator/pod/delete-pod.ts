import { pods } from "../../crds/client/built-in-resources.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { PodContext } from "./context.ts";

/** Deletes exactly this pod, not another that has taken its name; that it is gone already is no error. */
export async function deletePod(pod: Pod, { cluster }: PodContext): Promise<void> {
  if (pod.metadata.deletionTimestamp === undefined) await cluster(pods).of(pod).delete();
}

/**
 * Deletes a pod that nobody has claimed, on the condition that it is still as it was read: a claim that takes it at
 * this moment changes it, and wins.
 */
export async function deleteUnclaimed(pod: Pod, { cluster, reservedPods }: PodContext): Promise<void> {
  if (reservedPods.has(pod.metadata.uid ?? "")) return;
  await cluster(pods).of(pod).delete({ precondition: "resourceVersion" });
}
