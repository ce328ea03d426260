import type { Claim } from "../../../crds/claim.ts";
import { isNotFound } from "../../../crds/client/api-error.ts";
import { claims } from "../../../crds/kinds.ts";
import { claimName, hashedClaimName } from "../../../crds/names.ts";
import { type ClaimPair, pairKey } from "../../cluster/claim-key.ts";
import { samePair } from "../../cluster/same-pair.ts";
import type { ClaimServices } from "./claim-services.ts";

/**
 * Every claim object of a pair: from the store, else by either name from the cluster, since another process may have created
 * it a moment ago.
 */
export async function findClaims(
  pair: ClaimPair,
  { client, namespace, view }: Pick<ClaimServices, "client" | "namespace" | "view">,
): Promise<Claim[]> {
  const known = [...view.claims.store.by("pair", pairKey(pair))];
  if (known.length > 0) return known;
  const found = await Promise.all([claimName(pair), hashedClaimName(pair)].map(get));
  return found.filter((claim) => claim !== undefined && samePair(claim, pair)) as Claim[];

  async function get(name: string): Promise<Claim | undefined> {
    try {
      return await client.get(claims, { namespace, name });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }
}
