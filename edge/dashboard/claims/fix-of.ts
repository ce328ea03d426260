import { mayChange } from "../api/access.ts";
import { claimHref, savedHref } from "../parts/hrefs.ts";
import { tenantHref } from "../parts/tenant-link.tsx";
import type { ClaimKey } from "./claim.ts";

/** Reasons whose cause is in the workload, or in its image. */
const ofWorkload = [
  ...["Unhealthy", "WorkloadNotReady", "ImagePullFailed", "CrashLooping", "ProgramEnded", "StartTimeout"],
  ...["Unschedulable", "OnClaimFailed"],
];

/** The page on which the cause of a claim's reason can be removed. */
export function fixOf(reason: string, claim: ClaimKey): { word: string; href: string } {
  const { tenantId, workloadRef } = claim;
  if (reason === "WorkloadNotFound" && mayChange())
    return { word: "Create workload", href: "/dashboard/create/workload" };
  if (ofWorkload.includes(reason))
    return { word: `Workload ${workloadRef}`, href: `/dashboard/workloads/${workloadRef}` };
  if (reason === "RestoreFailed") return { word: "Saved versions", href: savedHref(claim) };
  if (reason === "TenantQuotaExceeded" || reason === "TenantStartsExceeded")
    return { word: `Limits of ${tenantId}`, href: tenantHref(tenantId) };
  return { word: "Open claim", href: claimHref(claim) };
}
