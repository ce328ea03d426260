import type { Claim } from "../../crds/claim.ts";
import type { ClaimPair } from "./claim-key.ts";

/** Whether a claim that was found by its name is the pair's; two pairs can share a name. */
export function samePair({ spec }: Claim, pair: ClaimPair): boolean {
  return spec.tenantId === pair.tenantId && spec.workloadRef === pair.workloadRef;
}
