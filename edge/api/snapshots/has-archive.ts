import { isNotFound } from "../../../crds/client/api-error.ts";
import { persistentVolumeClaims } from "../../../crds/client/built-in-resources.ts";
import { annotation } from "../../../crds/labels.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/snapshots-names.ts";
import { NO_ARCHIVE, storeScripts, UNMARKED } from "../../../crds/snapshots/store-scripts.ts";
import { runInStore } from "./archive-store.ts";
import type { SnapshotServices } from "./snapshot-services.ts";
import { storeState } from "./store-state.ts";
import { volumeFailure } from "./volume-failure.ts";

/**
 * Whether a tenant has an archive. Only a volume that says itself that there is none counts as one without, and not one that has lost its
 * mark (docs/decisions/624).
 *
 * @throws HttpError 503 where the volume cannot be looked at; as {@link runInStore} does
 */
export async function hasArchive(
  { tenantId, workloadRef }: SnapshotKey,
  services: SnapshotServices,
  clientGone: AbortSignal | undefined,
): Promise<boolean> {
  if ((await storeState(services)) === "none") return false;
  const { kubectl, clock, namespace } = services;
  const wish = { script: storeScripts.stat, words: [tenantId, workloadRef, ""], namespace };
  const answer = await runInStore(wish, { kubectl, clock, clientGone });
  if (/^\d+\n/.test(answer.stdout)) return true;
  if (answer.exitCode === NO_ARCHIVE) return false;
  if (answer.exitCode === UNMARKED && !(await wasMarked(services))) return false;
  throw volumeFailure(answer);
}

async function wasMarked({ client, namespace }: SnapshotServices): Promise<boolean> {
  try {
    const { metadata } = await client.get(persistentVolumeClaims, { namespace, name: SNAPSHOTS_NAME });
    return metadata.annotations?.[annotation.volumeMarked] === "true";
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}
