import type { Change } from "./client/watch/informer.ts";
import type { Workload } from "./workload.ts";

/**
 * Whether pods may be made of a workload: its present spec was found good, its policy is in place, and it is not going.
 */
export function isReadyToUse({ metadata, status }: Workload): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    status?.phase === "Ready" &&
    status.observedGeneration === metadata.generation
  );
}

/**
 * Whether what waits for a workload may go on after the change: it is there or gone, its spec was judged again, or its
 * pods run another image.
 */
export function hasNewPhase({ type, object, previous }: Change<Workload>): boolean {
  return (
    type !== "modified" ||
    object.status?.phase !== previous?.status?.phase ||
    object.status?.observedGeneration !== previous?.status?.observedGeneration ||
    object.status?.image !== previous?.status?.image
  );
}
