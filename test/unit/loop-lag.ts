import { readFileSync } from "node:fs";
import type { Test } from "uvu";
import * as assert from "uvu/assert";

/** The promise of the product: nothing that strangers or tenants send stops an edge for longer. */
export const MAX_LAG_MS = 100;

/**
 * Measures how long the event loop did not turn because this process computed. The time is that of the processor, of
 * this thread alone: waiting for a busy machine is none.
 *
 * @returns a function that ends it and returns the longest such time so far, in milliseconds
 */
export function watchLoop(): () => number {
  let longest = 0;
  let before = threadMs();
  const look = (): void => {
    const now = threadMs();
    longest = Math.max(longest, now - before);
    before = now;
  };
  const timer = setInterval(look, 1);
  return () => {
    clearInterval(timer);
    look();
    return longest;
  };
}

/** Fails the suite where the event loop did not turn for longer than promised while its tests ran. */
export function failOnLag<T>(test: Test<T>): void {
  let end: (() => number) | undefined;
  test.before(() => {
    end = watchLoop();
  });
  test.after(() => {
    const ms = end?.() ?? 0;
    assert.ok(ms < MAX_LAG_MS, `the event loop did not turn for ${ms.toFixed(0)} ms`);
  });
}

/** The processor time of a function that does not wait, in milliseconds. */
export function timeOf(run: () => unknown): number {
  const before = threadMs();
  run();
  return threadMs() - before;
}

/** https://docs.kernel.org/scheduler/sched-stats.html#proc-pid-schedstat, whose first field is nanoseconds */
function threadMs(): number {
  return Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, "utf8").split(" ")[0]) / 1e6;
}
