import type { Cron } from "croner";
import { lastRuns, parseCron } from "../../../crds/cron-pattern.ts";

/** The occurrences of a cron pattern, in milliseconds since the epoch. */
export interface Schedule {
  /** The first occurrence after that time. */
  next(after: number): number | undefined;
  /** The last occurrences in `(after, until]`, at most `most`, in order. */
  between(range: { after: number; until: number; most: number }): number[];
  /** Releases what it shares with other schedules. */
  close(): void;
}

/** Opens schedules; those with the same pattern and time zone share their parsed pattern (83 KB). */
export type OpenSchedule = (pattern: string, timezone: string) => Schedule;

/**
 * Makes the opener of schedules with five fields. Daylight-saving changes follow {@link parseCron}. A fixed time of day
 * that is skipped fires right after the gap, and one that occurs twice fires the first time; patterns with a wildcard
 * or a step in hours or minutes follow the clock.
 *
 * @throws Error that names the trigger's field, from the returned function
 */
export function createSchedules(): OpenSchedule {
  const shared = new Map<string, { cron: Cron; users: number }>();
  return (pattern, timezone) => {
    const key = JSON.stringify([pattern, timezone]);
    const entry = shared.get(key) ?? { cron: parse(pattern, timezone), users: 0 };
    shared.set(key, entry);
    entry.users += 1;
    const { cron } = entry;
    let isOpen = true;
    const nextAfter = (after: number): number | undefined => cron.nextRun(new Date(after))?.getTime();
    return {
      next: nextAfter,
      between({ after, until, most }) {
        const found: number[] = [];
        for (let time = nextAfter(after); time !== undefined && time <= until; time = nextAfter(time)) {
          if (found.push(time) > most) break;
        }
        if (found.length <= most) return found;
        return lastRuns(cron, { until, most })
          .filter((time) => time > after)
          .reverse();
      },
      close() {
        if (!isOpen) return;
        isOpen = false;
        entry.users -= 1;
        if (entry.users === 0) shared.delete(key);
      },
    };
  };
}

function parse(pattern: string, timezone: string): Cron {
  try {
    return parseCron(pattern, timezone);
  } catch (error) {
    throw new Error(`spec.config.schedule: ${(error as Error).message}`, { cause: error });
  }
}
