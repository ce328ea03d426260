import type { Claim } from "../../crds/claim.ts";

/** The index value under which claims of the same tenant on the same workload stand. */
export function pairKey({ spec }: Claim): string {
  return `${spec.tenantId}/${spec.workloadRef}`;
}

/** Whether the claim waits for something of its workload: for a pod, or for the workload itself. */
export function isWaiting({ status }: Claim): boolean {
  if (status?.phase === "Error") return status.reason === "WorkloadNotFound" || status.reason === "WorkloadTerminating";
  return (status?.phase ?? "Pending") === "Pending";
}

/** Whether the claim was kept from going on by the helper pod, or may have been. */
export function needsHelper({ status }: Claim): boolean {
  return status?.phase === "ReleaseFailed" || status?.reason === "SnapshotsUnavailable";
}

/**
 * The claim that holds this one's place, if another of the same tenant and workload does: a tenant has at most one claim a workload.
 *
 * One that is being released comes first, since its files are; then the one that is Active; then the oldest.
 *
 * @param claims all of that tenant on that workload
 */
export function canonicalClaim(claim: Claim, claims: Iterable<Claim>): Claim | undefined {
  let canonical: Claim | undefined;
  for (const other of claims) {
    if (other.metadata.uid === claim.metadata.uid || isDuplicate(other)) continue;
    if (place(other) < place(canonical ?? claim)) canonical = other;
  }
  return canonical;
}

function isDuplicate({ status }: Claim): boolean {
  return status?.phase === "Error" && status.reason === "Duplicate";
}

function place({ metadata, status }: Claim): string {
  const rank = metadata.deletionTimestamp !== undefined ? 0 : status?.phase === "Active" ? 1 : 2;
  return `${rank} ${metadata.creationTimestamp} ${metadata.uid}`;
}
