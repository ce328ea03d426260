import type { Claim } from "../../crds/claim.ts";

/** Whether a claim that failed for the reason is tried again by itself once the workload is there. */
export function comesWithWorkload(reason: string | null | undefined): boolean {
  return reason === "WorkloadNotFound" || reason === "WorkloadTerminating";
}

/** Whether the claim waits for something of its workload: for a pod, or for the workload itself. */
export function isWaiting({ status }: Claim): boolean {
  if (status?.phase === "Error") return comesWithWorkload(status.reason);
  return (status?.phase ?? "Pending") === "Pending";
}

/** Whether the claim was kept from going on by the helper pod, or may have been. */
export function needsHelper({ status }: Claim): boolean {
  return status?.phase === "ReleaseFailed" || status?.reason === "SnapshotsUnavailable";
}

/** Why an Active claim is not Ready whose program has ended, until the kubelet has started it again. */
export const PROGRAM_ENDED = "ProgramEnded";

/** The condition that says whether the files of a release were saved. */
export const FILES_SAVED = "FilesSaved";

/** Since when a release could not save its files, in milliseconds since the epoch; undefined where none failed. */
export function failedSaveSince({ status }: Claim): number | undefined {
  if (status?.phase !== "ReleaseFailed") return undefined;
  const since = Date.parse(status.conditions?.find(({ type }) => type === FILES_SAVED)?.lastTransitionTime ?? "");
  return Number.isNaN(since) ? undefined : since;
}
