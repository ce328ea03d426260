import type { Workload } from "../../crds/workload.ts";

/** Whether pods may be made of a workload: its present spec was found good, its policy is in place, and it is not going. */
export function isReadyToUse({ metadata, status }: Workload): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    status?.phase === "Ready" &&
    status.observedGeneration === metadata.generation
  );
}
