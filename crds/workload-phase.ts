import type { Change } from "./client/watch/informer.ts";
import type { Workload } from "./workload.ts";

/**
 * Whether pods may be created for a workload: its current spec is valid, its policy exists, and it is not being
 * deleted.
 */
export function isReadyToUse({ metadata, status }: Workload): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    status?.phase === "Ready" &&
    status.observedGeneration === metadata.generation
  );
}

/**
 * Whether work that waits for a workload may continue after the change: the workload was created or deleted, its spec
 * was validated again, or its pods get another image.
 */
export function hasNewPhase({ type, object, previous }: Change<Workload>): boolean {
  return (
    type !== "modified" ||
    object.status?.phase !== previous?.status?.phase ||
    object.status?.observedGeneration !== previous?.status?.observedGeneration ||
    object.status?.image !== previous?.status?.image
  );
}
