import type { Claim } from "../../../crds/claim.ts";
import { claimKey, hasKey, MOVING } from "../../../crds/claims/claim-key.ts";
import { isConflict, isNotFound } from "../../../crds/client/api-error.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { claimName, hashedClaimName } from "../../../crds/names.ts";
import { quote } from "../../../crds/quote.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { HttpError } from "../../http/http-error.ts";
import type { SnapshotServices } from "./store.ts";

type ClaimSources = Pick<SnapshotServices, "cluster" | "namespace" | "cache">;

/**
 * Refuses while a release of the key is writing its archive, or will: it would create again what is deleted now.
 *
 * @throws HttpError 409 that says what to do
 */
export async function refuseWhileSaved(key: SnapshotKey, services: ClaimSources): Promise<void> {
  for (const claim of await claimsOf(key, services)) refuseReleasing(claim, services);
}

/**
 * Call this before deleting the archive that was read: releases of the key that start later then save the files again.
 * Otherwise a release that finds no changed files would rely on the deleted archive, and the files would be lost.
 *
 * @throws HttpError as {@link refuseWhileSaved} does
 */
export async function noteErasure(key: SnapshotKey, services: ClaimSources & { clock: Clock }): Promise<void> {
  const { cluster, clock } = services;
  for (const claim of await claimsOf(key, services)) {
    if (claim.status?.phase === "Released") continue;
    const annotations = { [annotation.erasedAt]: new Date(clock.now()).toISOString() };
    try {
      // What a release has begun before, the answer shows.
      const noted = await cluster(claims).of(claim).patch({ metadata: { annotations } }, { precondition: "uid" });
      refuseReleasing(noted, services);
    } catch (error) {
      if (isNotFound(error) || isConflict(error)) throw underWay(claim.spec);
      throw error;
    }
  }
}

function refuseReleasing({ metadata, spec, status }: Claim, { namespace }: Pick<ClaimSources, "namespace">): void {
  const { name, deletionTimestamp } = metadata;
  const phase = status?.phase;
  if (phase === "ReleaseFailed") {
    const command = `kubectl -n ${namespace} annotate tenancyclaim ${name} ${annotation.discard}=true`;
    throw new HttpError(
      409,
      `${releaseOf(spec)} failed and is being retried, which would write this snapshot again; discard its files with ${command}, then delete again`,
    );
  }
  if (status?.reason === MOVING || (status?.sessionSnapshot !== undefined && phase === "Pending")) {
    const message = `the session of workload ${quote(spec.workloadRef)} by tenant ${quote(spec.tenantId)} moves to another pod and needs this snapshot; delete again when its claim is Active`;
    throw new HttpError(409, message, { headers: { "retry-after": "5" } });
  }
  if (phase === "Releasing" || (deletionTimestamp !== undefined && phase !== "Released")) throw underWay(spec);
}

function underWay(key: SnapshotKey): HttpError {
  const wait = `POST /api/v1/tenants/${key.tenantId}/release?wait=true`;
  return new HttpError(
    409,
    `${releaseOf(key)} is in progress and may write this snapshot again; delete again when it has finished, which ${wait} waits for`,
  );
}

function releaseOf({ tenantId, workloadRef }: SnapshotKey): string {
  return `the release of workload ${quote(workloadRef)} by tenant ${quote(tenantId)}`;
}

/**
 * Refuses while the tenant has a claim on the workload: its session started from other files than the new newest
 * version, and its release would replace that version.
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
async function claimsOf(key: SnapshotKey, { cluster, cache }: ClaimSources): Promise<Claim[]> {
  const known = [...cache.claims.store.by("key", claimKey(key))].map(({ metadata }) => metadata.name);
  const names = new Set([claimName(key), hashedClaimName(key), ...known]);
  const found = await Promise.all([...names].map((name) => cluster(claims).named(name).find()));
  return found.filter((claim) => claim !== undefined && hasKey(claim, key)) as Claim[];
}
