import type { Claim } from "../claim.ts";
import { finalizer } from "../labels.ts";

/** Identifies a claim; its object's name does not. */
export interface ClaimKey {
  readonly tenantId: string;
  readonly workloadRef: string;
}

/** Reason of a claim whose pod is being deleted by somebody else, and waits for its files to be saved. */
export const MOVING = "Moving";

/** The key as a string; no part can contain a slash. */
export function claimKey(key: ClaimKey): string {
  return `${key.tenantId}/${key.workloadRef}`;
}

/** Whether a claim that was found by its name has this key; two keys can share a name. */
export function hasKey({ spec }: Claim, key: ClaimKey): boolean {
  return spec.tenantId === key.tenantId && spec.workloadRef === key.workloadRef;
}

/**
 * Whether the release of a claim has finished and its object remains only because of another party's finalizer. Its
 * files are saved and its pods are gone, or it was deleted before an operator reconciled it: the tenant may claim again
 * under another name.
 */
export function isOver({ metadata, status }: Claim): boolean {
  const phase = status?.phase ?? "Released";
  if (metadata.deletionTimestamp === undefined || phase !== "Released") return false;
  // A finalizer cannot be added to an object that is being deleted, so this stays true.
  return metadata.finalizers?.includes(finalizer.release) !== true;
}

/**
 * The canonical claim of a key: a tenant has at most one claim on a workload, and the operator refuses the others as
 * duplicates. A claim for which {@link isOver} holds does not count.
 *
 * Refused claims come last. Among the others, one being released comes first, since its files exist; then the Active
 * one; then the oldest.
 */
export function canonicalClaim(claims: Iterable<Claim>): Claim | undefined {
  let canonical: Claim | undefined;
  for (const claim of claims) {
    if (isOver(claim)) continue;
    if (canonical === undefined || place(claim) < place(canonical)) canonical = claim;
  }
  return canonical;
}

function place({ metadata, status }: Claim): string {
  const isDuplicate = status?.phase === "Error" && status.reason === "Duplicate";
  const hasSession = status?.phase === "Active" || status?.reason === MOVING;
  const rank = isDuplicate ? 3 : metadata.deletionTimestamp !== undefined ? 0 : hasSession ? 1 : 2;
  return `${rank} ${metadata.creationTimestamp} ${metadata.uid}`;
}
