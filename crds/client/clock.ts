/** Time as this system reads it, so that tests can own it. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Calls back once after `delayMs` milliseconds; the function it returns cancels that. */
  after(delayMs: number, callback: () => void): () => void;
}

export const systemClock: Clock = {
  now: Date.now,
  after(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};

/** For spans of time alone: it counts from the process's start, and setting the system's clock moves nothing on it. */
export const steadyClock: Clock = { ...systemClock, now: () => performance.now() };
