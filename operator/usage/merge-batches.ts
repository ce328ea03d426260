import type { StoreCall } from "../../crds/snapshots/snapshot-store.ts";
import { HOUR_MS, hourAt, hourStart, type UsageHour } from "../../crds/usage/usage-hour.ts";
import type { UsageStore } from "../../crds/usage/usage-store.ts";

/** So few are read as fast as one. */
const FEW_BATCHES = 8;
/** In memory at once. */
const MERGED_BYTES = 2 * 1024 * 1024;

/**
 * Adds the records of an hour's batches again, in few large ones, and then deletes those batches. A month of 10 000
 * sessions a day would else be 300 000 objects, which take minutes to read.
 *
 * A record that is in two batches counts once, so it does not matter where this is interrupted, or whether two leaders
 * do it. What is added while this runs is in a batch that stays.
 */
export async function mergeBatches(
  hour: UsageHour,
  { store, nameOf, call }: { store: UsageStore; nameOf: () => string; call: StoreCall },
): Promise<void> {
  // Listed before they are read: each of these is read.
  const names = await store.batches(hour, call);
  if (names.length <= FEW_BATCHES) return;
  let merged: string[] = [];
  let bytes = 0;

  async function add(): Promise<void> {
    if (merged.length > 0) await store.append({ hour, name: nameOf(), lines: merged.join("") }, call);
    merged = [];
    bytes = 0;
  }

  for await (const lines of store.read({ from: hour, to: hourAt(hourStart(hour) + HOUR_MS) }, call)) {
    for (const line of lines) {
      const text = `${line}\n`;
      if (bytes + Buffer.byteLength(text) > MERGED_BYTES) await add();
      merged.push(text);
      bytes += Buffer.byteLength(text);
    }
  }
  await add();
  await store.drop({ hour, names }, call);
}
