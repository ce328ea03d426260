import type { ApiTypes } from "../../api/openapi/schemas.ts";

/**
 * Says what becomes of a tenant's claim when a pod of theirs is destroyed.
 *
 * @param claim undefined where the claim is gone, or was another workload's
 */
export function destroyWords(
  pod: { readonly name: string },
  claim: Pick<ApiTypes["Claim"], "phase" | "instanceId"> | undefined,
): string {
  if (claim === undefined) return "There is no claim that it belongs to any longer.";
  const { phase, instanceId } = claim;
  // An end of the pod is an end of the save.
  if (phase === "Releasing" || phase === "Released")
    return "The claim is being released: what is not saved by then never is, and the claim goes.";
  if (phase === "ReleaseFailed") return "What could not be saved is given up, and the claim goes.";
  if (phase === "Error") return "The claim has failed already, and stays so until it is claimed again.";
  if (instanceId !== undefined && instanceId !== pod.name)
    return `The claim has another pod, ${instanceId}, and keeps it.`;
  if (phase === "Pending") return "The claim waits for a pod: another one is started at once.";
  return "The claim stays, without a pod, until it is claimed again.";
}
