import type { ApiTypes } from "../../api/openapi/schemas.ts";

/**
 * Describes what happens to a tenant's claim when its pod is destroyed.
 *
 * @param claim undefined if the claim no longer exists, or belonged to another workload
 */
export function destroyWords(
  pod: { readonly name: string },
  claim: Pick<ApiTypes["Claim"], "phase" | "instanceId"> | undefined,
): string {
  if (claim === undefined) return "The pod no longer belongs to a claim.";
  const { phase, instanceId } = claim;
  // Deleting the pod stops the save.
  if (phase === "Releasing" || phase === "Released")
    return "The claim is being released: files that are not saved yet are lost, and the claim is deleted.";
  if (phase === "ReleaseFailed") return "The unsaved files are lost, and the claim is deleted.";
  if (phase === "Error") return "The claim has already failed and stays failed until it is claimed again.";
  if (instanceId !== undefined && instanceId !== pod.name)
    return `The claim has another pod, ${instanceId}, and is not affected.`;
  if (phase === "Pending") return "The claim is waiting for a pod: another one starts immediately.";
  return "The claim stays without a pod until it is claimed again.";
}
