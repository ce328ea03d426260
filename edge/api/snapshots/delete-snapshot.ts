import type { Claim } from "../../../crds/claim.ts";
import { claimKey, hasKey } from "../../../crds/claims/claim-key.ts";
import { ifFound } from "../../../crds/client/api-error.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { claimName, hashedClaimName } from "../../../crds/names.ts";
import { type SnapshotKey, snapshotPath } from "../../../crds/snapshots/snapshot-key.ts";
import { NO_ARCHIVE, storeScripts } from "../../../crds/snapshots/store-scripts.ts";
import { HttpError } from "../../http/http-error.ts";
import { quote } from "../../http/quote.ts";
import { runInStore, type SnapshotServices, storeState, volumeFailure } from "./archive-store.ts";

/**
 * Erases a tenant's archive, and what an interrupted save left of it.
 *
 * @throws HttpError 404 where there is none; as {@link refuseWhileSaved} does while a release writes it; 503 where the volume cannot be
 *   written; as {@link runInStore} does
 */
export async function deleteSnapshot(
  key: SnapshotKey,
  services: SnapshotServices,
  { clientGone }: { clientGone: AbortSignal | undefined },
): Promise<void> {
  await refuseWhileSaved(key, services);
  const { tenantId, workloadRef } = key;
  const none = new HttpError(
    404,
    `tenant ${quote(tenantId)} has no snapshot of workload ${quote(workloadRef)}: ${snapshotPath(key)} does not exist`,
  );
  if ((await storeState(services)) === "none") throw none;
  const { kubectl, clock, namespace } = services;
  const command = { script: storeScripts.delete, words: [tenantId, workloadRef, "", ""], namespace };
  const answer = await runInStore(command, { kubectl, clock, clientGone });
  if (answer.exitCode === NO_ARCHIVE) throw none;
  if (answer.exitCode !== 0 || answer.stdout !== "deleted\n") throw volumeFailure(answer);
}

/**
 * Refuses while a release of the key writes its archive, or will, since what is deleted now would be there again. Claims are read from
 * the cluster: the watch may not have seen yet that one is released.
 *
 * @throws HttpError 409 that says what to do
 */
async function refuseWhileSaved(
  key: SnapshotKey,
  services: Pick<SnapshotServices, "client" | "namespace" | "cache">,
): Promise<void> {
  const { client, namespace, cache } = services;
  const known = [...cache.claims.store.by("key", claimKey(key))].map(({ metadata }) => metadata.name);
  const names = new Set([claimName(key), hashedClaimName(key), ...known]);
  const found = await Promise.all([...names].map(get));
  for (const claim of found) {
    if (claim === undefined || !hasKey(claim, key)) continue;
    const { tenantId, workloadRef } = key;
    const release = `the release of workload ${quote(workloadRef)} by tenant ${quote(tenantId)}`;
    const { name, deletionTimestamp } = claim.metadata;
    const phase = claim.status?.phase;
    if (phase === "ReleaseFailed") {
      const command = `kubectl -n ${namespace} annotate tenancyclaim ${name} ${annotation.discard}=true`;
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

  function get(name: string): Promise<Claim | undefined> {
    return ifFound(client.get(claims, { namespace, name }));
  }
}
