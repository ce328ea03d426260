import { Cron } from "croner";

/**
 * Parses a cron pattern of five fields. Daylight-saving changes follow croner's rule, which is that of Vixie cron.
 *
 * @throws Error that says what is wrong with the pattern or the time zone
 */
export function parseCron(pattern: string, timezone: string): Cron {
  let next: Date | null;
  let cron: Cron;
  try {
    cron = new Cron(pattern, { paused: true, mode: "5-part", timezone });
    next = cron.nextRun();
  } catch (cause) {
    const why = (cause instanceof Error ? cause.message : String(cause)).replace(/^Cron\w+: /, "");
    throw new Error(`cannot parse ${pattern} in ${timezone}: ${why}`, { cause });
  }
  if (next === null) throw new Error(`${pattern} never matches; choose a day that exists`);
  return cron;
}

/** The last occurrences until then, at most `most`, in milliseconds since the epoch, the newest first. */
export function lastRuns(cron: Cron, { until, most }: { until: number; most: number }): number[] {
  // croner considers whole seconds before a time.
  const runs = cron.previousRuns(most, new Date(Math.floor(until / 1000) * 1000 + 1000));
  return runs.map((run) => run.getTime()).filter((time) => time <= until);
}
