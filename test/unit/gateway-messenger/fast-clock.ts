import type { Clock } from "../../../crds/client/clock.ts";

/** So much of the system's time counts at most from one look at it to the next, in milliseconds. */
const LONGEST_STEP_MS = 1;

/**
 * The system's time, `factor` times as fast: for tests with real sockets, in which a Lease has to run out. It passes
 * only while this process runs: on a machine that has more to do, a Lease would otherwise be over before an answer was
 * read.
 */
export function fastClock(factor: number): Clock {
  const timers = new Set<{ at: number; callback: () => void }>();
  let now = Date.now();
  let ticking = false;

  function tick(from: number): void {
    setTimeout(() => {
      const at = performance.now();
      now += Math.min(at - from, LONGEST_STEP_MS) * factor;
      for (const timer of [...timers].sort((a, b) => a.at - b.at)) {
        if (timer.at <= now && timers.delete(timer)) timer.callback();
      }
      ticking = timers.size > 0;
      if (ticking) tick(at);
    }, 1);
  }

  return {
    now: () => now,
    after(delayMs, callback) {
      const timer = { at: now + delayMs, callback };
      timers.add(timer);
      if (!ticking) tick(performance.now());
      ticking = true;
      return () => timers.delete(timer);
    },
  };
}
