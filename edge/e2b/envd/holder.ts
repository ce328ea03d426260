import { canonicalClaim, claimKey } from "../../../crds/claims/claim-key.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import { sandboxRecord } from "../sandbox-record.ts";
import type { EnvdAccess } from "./authenticate.ts";

/** Returns the function that finds who has asked for a sandbox: its claim says so. */
export function createHolderOf({ claims }: Pick<ClusterCache, "claims">): EnvdAccess["holderOf"] {
  return (sandbox) => {
    const claim = canonicalClaim(claims.store.by("key", claimKey(sandbox)));
    return claim && sandboxRecord(claim)?.by;
  };
}
