import type { Clock } from "../../crds/client/clock.ts";
import { waitUntil } from "../../scripts/cluster/process/wait-until.ts";

/** A clock that stands still until a test moves it, also beside real sockets, and that can be set like a real one. */
export interface ManualClock extends Clock {
  /** Milliseconds to the next timer. */
  nextIn(): number | undefined;
  /** Goes on to the next timer, runs it, and returns the milliseconds that passed. */
  runNext(): Promise<number>;
  /** Waits until the next timer is that far away, and runs it. */
  runWhenNextIs(delayMs: number): Promise<void>;
  /** Lets time pass: every timer on the way fires in its order, and what it starts goes as far as it can. */
  pass(ms: number): Promise<void>;
  /** Sets the time of the day; timers run on as they were. */
  set(time: number): void;
  /** How many timers are set. */
  pending(): number;
  /** The delays of those that ended by themselves, in milliseconds. */
  readonly delays: readonly number[];
}

/** @param longestPauseMs a timer of up to that many milliseconds ends by itself, at once. @default none does */
export function manualClock(start = "2026-01-01T00:00:00Z", { longestPauseMs = -1 } = {}): ManualClock {
  let passed = 0;
  let offset = Date.parse(start);
  const delays: number[] = [];
  const timers = new Set<{ at: number; callback: () => void }>();
  const run = (timer: { at: number; callback: () => void }) => {
    if (!timers.delete(timer)) return;
    passed = Math.max(passed, timer.at);
    timer.callback();
  };
  const first = () => [...timers].sort((a, b) => a.at - b.at)[0];
  const clock: ManualClock = {
    delays,
    now: () => passed + offset,
    after(delayMs, callback) {
      const timer = { at: passed + delayMs, callback };
      timers.add(timer);
      if (delayMs <= longestPauseMs) {
        delays.push(delayMs);
        setImmediate(run, timer);
      }
      return () => timers.delete(timer);
    },
    nextIn() {
      const next = first();
      return next && next.at - passed;
    },
    async runNext() {
      const next = first();
      if (next === undefined) throw new Error("no timer is set");
      const passedMs = next.at - passed;
      run(next);
      return passedMs;
    },
    async runWhenNextIs(delayMs) {
      const what = `a timer of ${delayMs} ms to be the next`;
      await waitUntil(() => clock.nextIn() === delayMs, { what, limitMs: 60_000, intervalMs: 1 });
      await clock.runNext();
    },
    async pass(ms) {
      const until = passed + ms;
      await turns();
      for (let next = first(); next !== undefined && next.at <= until; next = first()) {
        await clock.runNext();
        await turns();
      }
      passed = until;
    },
    set(time) {
      offset = time - passed;
    },
    pending: () => timers.size,
  };
  return clock;
}

/**
 * The system's clock, ten times as fast: for waits of seconds beside real sockets. A timer of 30 s and more is a limit
 * and takes its whole time, since what it limits is no faster here.
 */
export const hurriedClock: Clock = {
  now: () => Date.now() * 10,
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs < 30_000 ? delayMs / 10 : delayMs);
    return () => clearTimeout(timer);
  },
};

/** Lets what is ready go on. */
export async function turns(): Promise<void> {
  for (let count = 0; count < 12; count += 1) await new Promise((resolve) => setImmediate(resolve));
}
