import { setTimeout } from "node:timers/promises";
import type { Clock } from "../../../crds/client/clock.ts";
import { manualClock } from "../manual-clock.ts";

/**
 * A clock that runs about `factor` times as fast as the system's: for tests with real sockets, in which a Lease has to
 * run out. It passes in steps of a millisecond, and only while this process runs: on a machine that has more to do, a
 * Lease would otherwise be over before an answer was read.
 */
export function fastClock(factor: number): Clock {
  const { now, after, pass, pending } = manualClock(new Date().toISOString());
  let isTicking = false;

  async function tick(): Promise<void> {
    isTicking = true;
    while (pending() > 0) {
      await setTimeout(1);
      await pass(factor);
    }
    isTicking = false;
  }

  return {
    now,
    after(delayMs, callback) {
      const cancel = after(delayMs, callback);
      if (!isTicking) void tick();
      return cancel;
    },
  };
}
