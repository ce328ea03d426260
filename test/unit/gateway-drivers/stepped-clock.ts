import type { Clock } from "../../../crds/client/clock.ts";

export interface SteppedClock extends Clock {
  /** Milliseconds to the next timer. */
  nextIn(): number | undefined;
  /** Waits until the next timer is that far away, and goes there. */
  runWhenNextIs(delayMs: number): Promise<void>;
  /** How many timers are set. */
  pending(): number;
}

/** A clock that stands still until a test moves it, beside real sockets. */
export function steppedClock(): SteppedClock {
  let time = Date.UTC(2026, 0, 1);
  const timers = new Set<{ at: number; callback: () => void }>();
  const first = () => [...timers].sort((a, b) => a.at - b.at)[0];
  return {
    now: () => time,
    after(delayMs, callback) {
      const timer = { at: time + delayMs, callback };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    nextIn() {
      const next = first();
      return next === undefined ? undefined : next.at - time;
    },
    async runWhenNextIs(delayMs) {
      for (;;) {
        const next = first();
        if (next?.at === time + delayMs) {
          timers.delete(next);
          time = next.at;
          next.callback();
          return;
        }
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    },
    pending: () => timers.size,
  };
}
