import { isMergedName, type MergeOptions, mergedBatches } from "../../crds/usage/merged-batches.ts";
import type { UsageHour } from "../../crds/usage/usage-hour.ts";

/** So few are read as fast as one. */
const FEW_BATCHES = 8;

/**
 * Adds the records of an hour's batches again, each id once, in few large ones, and then deletes those batches. A month
 * of 10 000 sessions a day would else be 300 000 objects, which take minutes to read.
 *
 * A record that is in two batches counts once, so it does not matter where this is interrupted, or whether two leaders
 * do it. Large batches are named by what is in them: a repetition adds the same ones, also if a store deletes nothing.
 * What is added while this runs is in a batch that stays.
 */
export async function mergeBatches(hour: UsageHour, options: MergeOptions): Promise<void> {
  const { store, call } = options;
  // Listed before they are read: each of these is read.
  const names = await store.batches(hour, call);
  if (names.filter((name) => !isMergedName(name)).length <= FEW_BATCHES) return;
  const added = new Set<string>();
  for await (const batch of mergedBatches(hour, options)) {
    await store.append(batch, call);
    added.add(batch.name);
  }
  await store.drop({ hour, names: names.filter((name) => !added.has(name)) }, call);
}
