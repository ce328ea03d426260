import type { Clock } from "../../../crds/client/clock.ts";

/** The system's time, `factor` times as fast: for tests with real sockets, in which a Lease has to run out. */
export function fastClock(factor: number): Clock {
  const start = Date.now();
  return {
    now: () => start + (Date.now() - start) * factor,
    after(delayMs, callback) {
      const timer = setTimeout(callback, delayMs / factor);
      return () => clearTimeout(timer);
    },
  };
}
