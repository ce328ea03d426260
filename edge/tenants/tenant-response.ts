import type { Claim } from "../../crds/claim.ts";
import { type ClaimResponse, claimResponse } from "../../crds/claim-response.ts";

/** A tenant as the REST API shows it, claims by workload (spec.md, section 4.4). */
export function tenantResponse(
  tenantId: string,
  claims: Iterable<Claim>,
): { tenantId: string; claims: ClaimResponse[] } {
  return { tenantId, claims: [...claims].sort(byWorkload).map(claimResponse) };
}

function byWorkload(a: Claim, b: Claim): number {
  if (a.spec.workloadRef !== b.spec.workloadRef) return a.spec.workloadRef < b.spec.workloadRef ? -1 : 1;
  return a.metadata.name < b.metadata.name ? -1 : 1;
}
