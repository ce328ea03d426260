import { Cron } from "croner";

/** The occurrences of a cron pattern, in milliseconds since the epoch. */
export interface Schedule {
  /** The first occurrence after that time. */
  next(after: number): number | undefined;
  /** The last occurrences in `(after, until]`, at most `most`, in order. */
  between(range: { after: number; until: number; most: number }): number[];
  /** Releases what it shares with others. */
  close(): void;
}

/** Opens schedules; those of the same pattern and time zone share their parsed pattern (83 KB). */
export type OpenSchedule = (pattern: string, timezone: string) => Schedule;

/**
 * Makes the opener of schedules of five fields. Daylight-saving changes follow croner's rule, which is that of Vixie
 * cron: a fixed time of day that is skipped fires right after the gap, and one that comes twice fires the first time;
 * what has a wildcard or a step in its hours or minutes follows the clock.
 *
 * @throws Error that names the field of the trigger, of what it returns
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
        // croner looks at whole seconds before a time.
        const runs = cron.previousRuns(most, new Date(Math.floor(until / 1000) * 1000 + 1000));
        return runs
          .map((run) => run.getTime())
          .filter((time) => time > after && time <= until)
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
  let next: Date | null;
  let cron: Cron;
  try {
    cron = new Cron(pattern, { paused: true, mode: "5-part", timezone });
    next = cron.nextRun();
  } catch (cause) {
    const why = (cause instanceof Error ? cause.message : String(cause)).replace(/^Cron\w+: /, "");
    throw new Error(`spec.config.schedule: ${pattern} in ${timezone} cannot be read: ${why}`, { cause });
  }
  if (next === null) throw new Error(`spec.config.schedule: ${pattern} never comes true; choose a day that exists`);
  return cron;
}
