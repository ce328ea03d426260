import * as v from "valibot";

/** An occurrence that somebody runs. */
export interface RunningOccurrence {
  /** The adapter that runs it; empty: it was given up, for another to run. */
  readonly by: string;
  /** ISO 8601 time of its last sign of life. */
  readonly beat: string;
}

/** What a cron trigger's status remembers; times are ISO 8601. */
export interface CronState {
  /** Pattern and time zone that the rest is about. */
  readonly schedule: string;
  /** Occurrences up to this time are not this schedule's. */
  readonly since: string;
  /** The last occurrence that somebody took. */
  readonly last?: string | undefined;
  /** Occurrences that were taken and are not done, by their times. */
  readonly running: Readonly<Record<string, RunningOccurrence>>;
}

const time = v.pipe(
  v.string(),
  v.check((text) => !Number.isNaN(Date.parse(text))),
);
const schema = v.object({
  schedule: v.string(),
  since: time,
  last: v.optional(time),
  running: v.optional(v.record(time, v.object({ by: v.string(), beat: time })), {}),
});

/** Reads a cron trigger's state; undefined where there is none, or another adapter's. */
export function readCronState(state: unknown): CronState | undefined {
  const checked = v.safeParse(schema, state);
  return checked.success ? checked.output : undefined;
}
