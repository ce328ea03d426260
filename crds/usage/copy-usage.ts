import type { StoreCall } from "../snapshots/snapshot-store.ts";
import { isMergedName, mergedBatches } from "./merged-batches.ts";
import type { UsageHour } from "./usage-hour.ts";
import type { UsageStore } from "./usage-store.ts";

export interface UsageCopyCall extends StoreCall {
  /**
   * Whether nothing uses the target. Then it also gets the hours up to which running sessions are recorded in the
   * source, and up to which the sink has its records, if it has earlier ones. @default false
   */
  readonly isTargetUnused?: boolean | undefined;
  /** Called when the records of an hour are in the target. */
  readonly onHour: (hour: UsageHour, outcome: "copied" | "present") => void;
}

/**
 * Copies all usage records of a store to another. Those that the target has are not sent again, and none is deleted. A
 * record that the target has already counts once, by its id.
 *
 * @param call.timeoutMs for each call of a store
 */
export async function copyUsage(
  { from, to }: { from: UsageStore; to: UsageStore },
  call: UsageCopyCall,
): Promise<void> {
  // Read first: the records up to this hour are in the source.
  const until = await from.recordedUntil(call);
  const snapshots = await from.mark("snapshots", call);
  const snapshotsNext = await from.mark("snapshots-next", call);
  for (const hour of await from.hours(call)) {
    const present = new Set(await to.batches(hour, call));
    const names = await from.batches(hour, call);
    let isPresent = true;
    // The name of a merged batch says what is in it.
    if (!names.every((name) => isMergedName(name) && present.has(name))) {
      for await (const batch of mergedBatches(hour, { store: from, call })) {
        if (present.has(batch.name)) continue;
        await to.append(batch, call);
        isPresent = false;
      }
    }
    call.onHour(hour, isPresent ? "present" : "copied");
  }
  await copySentMark({ from, to }, call);
  // With a later hour a leader of the target would leave out hours of its own sessions. After an earlier one it records
  // some hours again, under the same ids.
  const isEarlier = (known: UsageHour | undefined, hour: UsageHour) =>
    known === undefined || (call.isTargetUnused === true && known < hour);
  if (until !== undefined && isEarlier(await to.recordedUntil(call), until)) await to.setRecordedUntil(until, call);
  if (snapshots === undefined || !isEarlier(await to.mark("snapshots", call), snapshots)) return;
  if (snapshotsNext !== undefined) await to.setMark("snapshots-next", snapshotsNext, call);
  await to.setMark("snapshots", snapshots, call);
}

/**
 * Also a target in use gets an earlier hour: its sink lacks the copied records, and gets others again. It is read when
 * the records are in the target, since a record that comes late moves it back.
 */
async function copySentMark({ from, to }: { from: UsageStore; to: UsageStore }, call: UsageCopyCall): Promise<void> {
  const sent = await from.mark("sent", call);
  const known = await to.mark("sent", call);
  if (sent === undefined || (known !== undefined && known <= sent && call.isTargetUnused !== true)) return;
  await to.setMark("sent", sent, call);
}
