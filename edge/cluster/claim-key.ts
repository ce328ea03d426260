import type { Claim } from "../../crds/claim.ts";

/** What identifies a claim; its name never does. */
export interface ClaimPair {
  readonly tenantId: string;
  readonly workloadRef: string;
}

/** The pair as one key; neither part can hold a slash. */
export function pairKey(pair: ClaimPair): string {
  return `${pair.tenantId}/${pair.workloadRef}`;
}

/** Whether a claim that was found by its name is the pair's; two pairs can share a name. */
export function samePair({ spec }: Claim, pair: ClaimPair): boolean {
  return spec.tenantId === pair.tenantId && spec.workloadRef === pair.workloadRef;
}
