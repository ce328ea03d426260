import { pods } from "../../crds/client/built-in-resources.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { endLauncher } from "../launcher/end-launcher.ts";
import { keepsFiles } from "../launcher/launch-command.ts";
import type { PodContext } from "./context.ts";
import { END_GRACE_SECONDS } from "./render-pod.ts";

/**
 * Deletes exactly this pod, not another with its name; that it is gone already is no error. Only for a pod with nothing
 * left to save: its launcher is told so, and the grace period is short, also where somebody else has deleted the pod.
 */
export async function deletePod(pod: Pod, context: PodContext): Promise<void> {
  const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = pod.metadata;
  const isHeld = keepsFiles(pod.spec) && deletionGracePeriodSeconds > END_GRACE_SECONDS;
  if (deletionTimestamp === undefined || isHeld) await context.cluster(pods).of(pod).delete(shortGrace(pod));
  endLauncher(pod, context);
}

/**
 * Deletes an unclaimed pod if it has not changed since it was read. If a claim takes the pod at the same time, the
 * claim changes it first, and the deletion fails.
 *
 * @returns whether it is being deleted, or gone
 */
export async function deleteUnclaimed(pod: Pod, context: PodContext): Promise<boolean> {
  if (context.reservedPods.has(pod.metadata.uid ?? "")) return false;
  const options = { precondition: "resourceVersion", ...shortGrace(pod) } as const;
  const { outcome } = await context.cluster(pods).of(pod).delete(options);
  if (outcome === "deleting") endLauncher(pod, context);
  return outcome === "deleting" || outcome === "deleted";
}

/** The grace period of a pod without a launcher is short already. */
function shortGrace({ spec }: Pod): { gracePeriodSeconds?: number } {
  return keepsFiles(spec) ? { gracePeriodSeconds: END_GRACE_SECONDS } : {};
}
