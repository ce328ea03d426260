export interface Backoff {
  /** Milliseconds to wait before the next try. They double from try to try, with a random part. */
  next(): number;
  /** Starts over after a success. */
  reset(): void;
}

/** Delays from `initialMs` up to `maxMs`; each is between half of its step and the whole step. */
export function createBackoff(options: { initialMs: number; maxMs: number; random?: () => number }): Backoff {
  const { initialMs, maxMs, random = Math.random } = options;
  let step = initialMs;
  return {
    next() {
      const delayMs = step * (0.5 + random() / 2);
      step = Math.min(maxMs, step * 2);
      return delayMs;
    },
    reset() {
      step = initialMs;
    },
  };
}
