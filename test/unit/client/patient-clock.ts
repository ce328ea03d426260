import type { Clock } from "../../../crds/client/clock.ts";

export interface PatientClock extends Clock {
  /** The delays of up to half a minute that were waited out, in milliseconds. */
  readonly delays: readonly number[];
  /** How many timers are set. */
  pending(): number;
  /** Lets time pass, and runs what is due. */
  advance(ms: number): void;
}

const longestPauseMs = 30_000;

/**
 * A clock on which pauses between tries end at once, and what takes longer, as a watch does, ends when a test says so.
 */
export function patientClock(): PatientClock {
  let time = Date.UTC(2026, 0, 1);
  const delays: number[] = [];
  const timers = new Set<{ at: number; callback: () => void }>();

  function run(timer: { at: number; callback: () => void }): void {
    if (!timers.delete(timer)) return;
    time = Math.max(time, timer.at);
    timer.callback();
  }

  return {
    delays,
    now: () => time,
    after(delayMs, callback) {
      const timer = { at: time + delayMs, callback };
      timers.add(timer);
      if (delayMs <= longestPauseMs) {
        delays.push(delayMs);
        setImmediate(run, timer);
      }
      return () => timers.delete(timer);
    },
    pending: () => timers.size,
    advance(ms) {
      const end = time + ms;
      for (const timer of [...timers].sort((a, b) => a.at - b.at)) if (timer.at <= end) run(timer);
      time = end;
    },
  };
}
