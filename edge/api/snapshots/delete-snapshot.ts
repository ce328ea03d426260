import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { snapshotPath } from "../../../crds/snapshots/snapshot-path.ts";
import { NO_ARCHIVE, storeScripts } from "../../../crds/snapshots/store-scripts.ts";
import { HttpError } from "../../http/http-error.ts";
import { quote } from "../../http/quote.ts";
import { runInStore } from "./archive-store.ts";
import { refuseWhileSaved } from "./refuse-while-saved.ts";
import type { SnapshotServices } from "./snapshot-services.ts";
import { storeState } from "./store-state.ts";
import { volumeFailure } from "./volume-failure.ts";

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
  const wish = { script: storeScripts.delete, words: [tenantId, workloadRef, "", ""], namespace };
  const answer = await runInStore(wish, { kubectl, clock, clientGone });
  if (answer.exitCode === NO_ARCHIVE) throw none;
  if (answer.exitCode !== 0 || answer.stdout !== "deleted\n") throw volumeFailure(answer);
}
