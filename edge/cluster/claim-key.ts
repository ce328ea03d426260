/** What identifies a claim; its name never does. */
export interface ClaimPair {
  readonly tenantId: string;
  readonly workloadRef: string;
}

/** The pair as one key; neither part can hold a slash. */
export function pairKey(pair: ClaimPair): string {
  return `${pair.tenantId}/${pair.workloadRef}`;
}
