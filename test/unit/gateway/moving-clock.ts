import type { Clock } from "../../../crds/client/clock.ts";

/** A clock that a test moves on, and that can be set like a real one. */
export interface MovingClock extends Clock {
  /** Lets time pass: every timer on the way fires in its order, and what it starts goes as far as it can. */
  pass(ms: number): Promise<void>;
  /** Sets the time of the day; timers run on as they were. */
  set(time: number): void;
  pending(): number;
}

export function movingClock(start: string): MovingClock {
  let passed = 0;
  let offset = Date.parse(start);
  const timers = new Set<{ at: number; callback: () => void }>();
  return {
    now: () => passed + offset,
    after(delayMs, callback) {
      const timer = { at: passed + delayMs, callback };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    async pass(ms) {
      const until = passed + ms;
      await turns();
      for (;;) {
        const [next] = [...timers].sort((a, b) => a.at - b.at);
        if (next === undefined || next.at > until) break;
        timers.delete(next);
        passed = Math.max(passed, next.at);
        next.callback();
        await turns();
      }
      passed = until;
    },
    set(time) {
      offset = time - passed;
    },
    pending: () => timers.size,
  };
}

/** Lets what is ready go on. */
export async function turns(): Promise<void> {
  for (let count = 0; count < 12; count += 1) await new Promise((resolve) => setImmediate(resolve));
}
