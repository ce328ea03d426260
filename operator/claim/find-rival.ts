import type { Claim } from "../../crds/claim.ts";
import type { OperatorContext } from "../context.ts";
import { pairKey } from "./claim-indexes.ts";

/**
 * The claim object that holds this claim's place, if another does: a tenant has at most one claim a workload.
 *
 * One that is being released comes first, since its files are; then the one that is Active; then the oldest.
 */
export function findRival(claim: Claim, { informers }: OperatorContext): Claim | undefined {
  let rival: Claim | undefined;
  for (const other of informers.claims.store.by("pair", pairKey(claim))) {
    if (other.metadata.uid === claim.metadata.uid || isDuplicate(other)) continue;
    if (goesBefore(other, rival ?? claim)) rival = other;
  }
  return rival;
}

function isDuplicate({ status }: Claim): boolean {
  return status?.phase === "Error" && status.reason === "Duplicate";
}

function goesBefore(one: Claim, other: Claim): boolean {
  return place(one) < place(other);
}

function place({ metadata, status }: Claim): string {
  const rank = metadata.deletionTimestamp !== undefined ? 0 : status?.phase === "Active" ? 1 : 2;
  return `${rank} ${metadata.creationTimestamp} ${metadata.uid}`;
}
