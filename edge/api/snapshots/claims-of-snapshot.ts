import type { Claim } from "../../../crds/claim.ts";
import { claimKey, hasKey } from "../../../crds/claims/claim-key.ts";
import { ifFound } from "../../../crds/client/api-error.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { claimName, hashedClaimName } from "../../../crds/names.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { HttpError, quote } from "../../http/http-error.ts";
import type { SnapshotServices } from "./store.ts";

type ClaimSources = Pick<SnapshotServices, "client" | "namespace" | "cache">;

/**
 * Refuses while a release of the key writes its archive, or will, since what is deleted now would be there again.
 *
 * @throws HttpError 409 that says what to do
 */
export async function refuseWhileSaved(key: SnapshotKey, services: ClaimSources): Promise<void> {
  const { tenantId, workloadRef } = key;
  const release = `the release of workload ${quote(workloadRef)} by tenant ${quote(tenantId)}`;
  for (const { metadata, status } of await claimsOf(key, services)) {
    const { name, deletionTimestamp } = metadata;
    const phase = status?.phase;
    if (phase === "ReleaseFailed") {
      const command = `kubectl -n ${services.namespace} annotate tenancyclaim ${name} ${annotation.discard}=true`;
      throw new HttpError(
        409,
        `${release} failed and is tried again, which would write this snapshot anew; give its files up with ${command}, then delete again`,
      );
    }
    if (phase === "Releasing" || (deletionTimestamp !== undefined && phase !== "Released")) {
      const wait = `POST /api/v1/tenants/${tenantId}/release?wait=true`;
      throw new HttpError(
        409,
        `${release} is under way and may write this snapshot anew; delete again when it has ended, which ${wait} waits for`,
      );
    }
  }
}

/**
 * Refuses while the tenant has a claim on the workload: its session goes on from other files than those that would be
 * the newest, and its release would put them in their place.
 *
 * @throws HttpError 409 that says what to do
 */
export async function refuseWhileClaimed(key: SnapshotKey, services: ClaimSources): Promise<void> {
  const found = await claimsOf(key, services);
  if (found.every(({ status }) => status?.phase === "Released")) return;
  const { tenantId, workloadRef } = key;
  throw new HttpError(
    409,
    `tenant ${quote(tenantId)} has a claim on workload ${quote(workloadRef)}: release it with POST /api/v1/tenants/${tenantId}/release?wait=true, then try again`,
  );
}

/** Read from the cluster: the watch may not have seen yet that one is made or released. */
async function claimsOf(key: SnapshotKey, { client, namespace, cache }: ClaimSources): Promise<Claim[]> {
  const known = [...cache.claims.store.by("key", claimKey(key))].map(({ metadata }) => metadata.name);
  const names = new Set([claimName(key), hashedClaimName(key), ...known]);
  const found = await Promise.all([...names].map((name) => ifFound(client.get(claims, { namespace, name }))));
  return found.filter((claim) => claim !== undefined && hasKey(claim, key)) as Claim[];
}
