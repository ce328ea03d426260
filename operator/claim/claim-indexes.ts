import type { Claim } from "../../crds/claim.ts";

/** Whether the claim waits for something of its workload: for a pod, or for the workload itself. */
export function isWaiting({ status }: Claim): boolean {
  if (status?.phase === "Error") return status.reason === "WorkloadNotFound" || status.reason === "WorkloadTerminating";
  return (status?.phase ?? "Pending") === "Pending";
}

/** Whether the claim was kept from going on by the helper pod, or may have been. */
export function needsHelper({ status }: Claim): boolean {
  return status?.phase === "ReleaseFailed" || status?.reason === "SnapshotsUnavailable";
}
