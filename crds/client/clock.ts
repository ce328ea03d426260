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
