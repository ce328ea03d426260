import { parseSnapshotList } from "../../../crds/snapshots/parse-snapshot-list.ts";
import { storeScripts } from "../../../crds/snapshots/store-scripts.ts";
import { HttpError } from "../../http/http-error.ts";
import { runInStore } from "./archive-store.ts";
import { bySnapshotKey, type SnapshotRecord, snapshotRecord } from "./snapshot-record.ts";
import type { SnapshotServices } from "./snapshot-services.ts";
import { storeState } from "./store-state.ts";
import { volumeFailure } from "./volume-failure.ts";

const MAX_TRIES = 3;

/**
 * Every archive on the snapshots volume, by tenant, then workload: one command in the helper pod, however many there are. A list that
 * comes without its end is asked for again, and never passed on.
 *
 * @param options.versions whether older versions are listed too, after the newest
 * @param options.looks called before the volume is looked at
 * @throws HttpError 503 where the volume cannot be read or the list never comes whole; as {@link runInStore} does
 */
export async function listSnapshots(
  services: SnapshotServices,
  { looks, versions }: { looks: () => void; versions: boolean },
): Promise<SnapshotRecord[]> {
  if ((await storeState(services)) === "none") return [];
  looks();
  const { kubectl, clock, namespace } = services;
  const wish = { script: storeScripts.list, words: [".", versions ? "4" : "2"], namespace };
  for (let tries = 1; tries <= MAX_TRIES; tries += 1) {
    const answer = await runInStore(wish, { kubectl, clock, clientGone: undefined });
    if (answer.exitCode !== 0) throw volumeFailure(answer);
    const list = parseSnapshotList(answer.stdout);
    if (list !== undefined) return [...list.snapshots, ...list.unrecorded].map(snapshotRecord).sort(bySnapshotKey);
  }
  throw new HttpError(503, `the list of snapshots came without its end, ${MAX_TRIES} times; try again`, {
    headers: { "retry-after": "1" },
  });
}
