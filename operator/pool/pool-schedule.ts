import { lastRuns, parseCron } from "../../crds/cron-pattern.ts";
import type { ScalingSpec } from "../../crds/pool.ts";

/** The fewest pods that a pool has now. */
export interface Floor {
  readonly minSize: number;
  /** Whether the schedule asks for more than `spec.minSize`. */
  readonly isScheduled: boolean;
  /** When an entry of the schedule occurs next, in milliseconds since the epoch; infinite if none does. */
  readonly until: number;
  /** Why an entry is ignored; undefined if none is. */
  readonly problem: string | undefined;
}

/**
 * The entry that occurred last is in force, at least with `spec.minSize`; of entries that occurred together, the one
 * with the greatest minSize.
 */
export function floorAt(now: number, { minSize, maxSize, schedule }: ScalingSpec): Floor {
  let last = { at: Number.NEGATIVE_INFINITY, minSize: 0 };
  let until = Number.POSITIVE_INFINITY;
  let problem: string | undefined;
  for (const [index, entry] of schedule.entries()) {
    try {
      const cron = parseCron(entry.cron, entry.timezone ?? "UTC");
      const [at = Number.NEGATIVE_INFINITY] = lastRuns(cron, { until: now, most: 1 });
      if (at > last.at || (at === last.at && entry.minSize > last.minSize)) last = { at, minSize: entry.minSize };
      until = Math.min(until, cron.nextRun(new Date(now))?.getTime() ?? until);
    } catch (error) {
      problem ??= `spec.schedule[${index}] is ignored: ${(error as Error).message}`;
    }
  }
  const scheduled = last.at === Number.NEGATIVE_INFINITY ? 0 : Math.min(last.minSize, maxSize);
  return { minSize: Math.max(minSize, scheduled), isScheduled: scheduled > minSize, until, problem };
}
