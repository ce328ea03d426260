import type { Clock } from "../../crds/client/clock.ts";

export interface ManualClock extends Clock {
  /** Goes on to the next timer, runs it, and returns the milliseconds that passed. */
  runNext(): Promise<number>;
  /** How many timers are set. */
  pending(): number;
}

/** A clock that stands still until a test moves it. */
export function manualClock(): ManualClock {
  let time = Date.UTC(2026, 0, 1);
  const timers = new Set<{ at: number; callback: () => void }>();
  return {
    now: () => time,
    after(delayMs, callback) {
      const timer = { at: time + delayMs, callback };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    async runNext() {
      const [next] = [...timers].sort((a, b) => a.at - b.at);
      if (next === undefined) throw new Error("no timer is set");
      const passedMs = next.at - time;
      timers.delete(next);
      time = next.at;
      next.callback();
      return passedMs;
    },
    pending: () => timers.size,
  };
}
