import type { ManualClock } from "../manual-clock.ts";

/**
 * Lets time pass, timer by timer, until the check holds. No test waits for real time.
 *
 * @throws Error when `limitMs` milliseconds of the clock have passed, or nothing is left that could happen
 */
export async function simulate(
  clock: ManualClock,
  what: string | (() => string),
  check: () => boolean,
  { limitMs = 3_600_000 }: { limitMs?: number } = {},
): Promise<void> {
  const end = clock.now() + limitMs;
  const wanted = () => (typeof what === "string" ? what : what());
  for (;;) {
    await new Promise(setImmediate);
    if (check()) return;
    if (clock.pending() === 0) throw new Error(`nothing more happens, and still not: ${wanted()}`);
    if (clock.now() > end) throw new Error(`${limitMs / 1000} s have passed, and still not: ${wanted()}`);
    await clock.runNext();
  }
}

/** Lets `ms` milliseconds pass. */
export async function pass(clock: ManualClock, ms: number): Promise<void> {
  const end = clock.now() + ms;
  let over = false;
  clock.after(ms, () => {
    over = true;
  });
  await simulate(clock, `${ms} ms to pass`, () => over || clock.now() >= end, { limitMs: ms + 1 });
}

/** Lets time pass until the promise is settled. */
export async function passUntil<T>(clock: ManualClock, promise: Promise<T>): Promise<T> {
  let settled = false;
  const end = () => {
    settled = true;
  };
  promise.then(end, end);
  await simulate(clock, "the promise to settle", () => settled);
  return promise;
}
