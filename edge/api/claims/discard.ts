import { type ClaimKey, hasKey } from "../../../crds/claims/claim-key.ts";
import { isConflict, isNotFound } from "../../../crds/client/api-error.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { quote } from "../../../crds/quote.ts";
import { HttpError } from "../../http/http-error.ts";
import type { ClaimServices } from "./claim-services.ts";
import { findClaims, noClaim, requireMeant } from "./release-tenant.ts";

const MAX_TRIES = 5;

/**
 * Discards the files that a tenant's release cannot save: the release continues without them.
 *
 * @param options.uid of the claim object to act on; any if undefined
 * @throws HttpError 404 without a claim, 409 if no release of it has failed, or the claim of that uid has ended
 */
export async function discardFiles(
  key: ClaimKey,
  services: Pick<ClaimServices, "cluster" | "cache">,
  { uid }: { uid?: string | undefined } = {},
): Promise<void> {
  const { cluster } = services;
  const { tenantId, workloadRef } = key;
  const found = await findClaims(key, services, uid);
  if (found.length === 0) throw noClaim(key);
  const meant = requireMeant(found, uid, key);
  for (const { metadata } of meant === undefined ? found : [meant]) {
    for (let tries = 1; ; tries += 1) {
      const claim = await cluster(claims).named(metadata.name).find();
      if (claim === undefined || claim.metadata.uid !== metadata.uid || !hasKey(claim, key)) break;
      if (claim.status?.phase !== "ReleaseFailed") break;
      try {
        await cluster(claims)
          .of(claim)
          .patch({ metadata: { annotations: { [annotation.discard]: "true" } } });
        return;
      } catch (error) {
        if (isNotFound(error)) break;
        if (!isConflict(error) || tries === MAX_TRIES) throw error;
      }
    }
  }
  throw new HttpError(
    409,
    `no release of workload ${quote(workloadRef)} by tenant ${quote(tenantId)} has failed: there are no files to discard`,
  );
}
