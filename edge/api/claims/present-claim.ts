import type { Claim } from "../../../crds/claim.ts";
import { type ClaimKey, canonicalClaim, hasKey, isOver } from "../../../crds/claims/claim-key.ts";
import { isConflict, isNotFound } from "../../../crds/client/api-error.ts";
import { claims } from "../../../crds/kinds.ts";
import { quote } from "../../../crds/quote.ts";
import { HttpError } from "../../http/http-error.ts";
import type { ClaimServices } from "./claim-services.ts";
import { findClaims, noClaim, requireMeant } from "./release-tenant.ts";

const MAX_TRIES = 5;

/**
 * Reads the canonical claim of a key from the cluster, and changes it; once more if it has changed since it was read.
 *
 * @param options.uid of the claim object to act on; any if undefined
 * @throws HttpError 404 without a claim; 409 if it is being released, or if the claim of that uid has ended
 */
export async function changePresentClaim<T>(
  key: ClaimKey,
  services: Pick<ClaimServices, "cluster" | "cache">,
  { uid, change }: { uid: string | undefined; change: (claim: Claim) => Promise<T> },
): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    const claim = await readPresentClaim(key, services, uid);
    try {
      return await change(claim);
    } catch (error) {
      if (isNotFound(error)) throw noClaim(key);
      if (!isConflict(error) || tries === MAX_TRIES) throw error;
    }
  }
}

export function claimOf({ tenantId, workloadRef }: ClaimKey): string {
  return `the claim of tenant ${quote(tenantId)} on workload ${quote(workloadRef)}`;
}

async function readPresentClaim(
  key: ClaimKey,
  services: Pick<ClaimServices, "cluster" | "cache">,
  uid: string | undefined,
): Promise<Claim> {
  const found = await findClaims(key, services, uid);
  const known = requireMeant(found, uid, key) ?? canonicalClaim(found);
  if (known === undefined) throw noClaim(key);
  const claim = await services.cluster(claims).named(known.metadata.name).find();
  if (claim === undefined || !hasKey(claim, key) || isOver(claim)) throw noClaim(key);
  requireMeant([claim], uid, key);
  if (claim.metadata.deletionTimestamp !== undefined)
    throw new HttpError(409, `${claimOf(key)} is being released: claim again to start a new session`);
  return claim;
}
