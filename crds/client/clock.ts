/** The system's time, replaceable in tests. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Calls back once after `delayMs` milliseconds; returns a function that cancels it. */
  after(delayMs: number, callback: () => void): () => void;
}

export const systemClock: Clock = {
  now: Date.now,
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};

/** Only for durations: it counts from the process's start, independent of the system's clock. */
export const steadyClock: Clock = { ...systemClock, now: () => performance.now() };
