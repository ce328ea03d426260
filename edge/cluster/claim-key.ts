import type { Claim } from "../../crds/claim.ts";

/** What identifies a claim; its name never does. */
export interface ClaimKey {
  readonly tenantId: string;
  readonly workloadRef: string;
}

/** The key as a string; neither part can hold a slash. */
export function claimKey(key: ClaimKey): string {
  return `${key.tenantId}/${key.workloadRef}`;
}

/** Whether a claim that was found by its name has this key; two keys can share a name. */
export function hasKey({ spec }: Claim, key: ClaimKey): boolean {
  return spec.tenantId === key.tenantId && spec.workloadRef === key.workloadRef;
}
