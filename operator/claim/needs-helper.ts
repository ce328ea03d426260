import type { Claim } from "../../crds/claim.ts";

/** Whether the claim was kept from going on by the helper pod, or may have been. */
export function needsHelper({ status }: Claim): boolean {
  return status?.phase === "ReleaseFailed" || status?.reason === "SnapshotsUnavailable";
}
