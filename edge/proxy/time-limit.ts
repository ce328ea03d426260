import type { Clock } from "../../crds/client/clock.ts";

/** A time limit for the current wait of a connection; each step sets it again. */
export interface TimeLimit {
  /** Calls back when `ms` milliseconds have passed without another call; it may be a second late. */
  set(ms: number, onExpired: () => void): void;
  /** Restarts the time of the last `set`. */
  touch(): void;
  clear(): void;
}

export interface TimeLimits {
  create(): TimeLimit;
  close(): void;
}

const SWEEP_MS = 1000;

/** Makes limits that share one timer: one for each step of each request would cost more than the step. */
export function createTimeLimits(clock: Clock): TimeLimits {
  interface Entry {
    ms: number;
    expiresAt: number;
    onExpired: () => void;
  }
  const entries = new Set<Entry>();
  let cancel: (() => void) | undefined;
  let closed = false;

  function sweep(): void {
    const now = clock.now();
    for (const entry of entries) {
      if (entry.expiresAt > now) continue;
      entries.delete(entry);
      entry.onExpired();
    }
    cancel = entries.size > 0 && !closed ? clock.after(SWEEP_MS, sweep) : undefined;
  }

  return {
    create() {
      const entry: Entry = { ms: 0, expiresAt: 0, onExpired: () => undefined };
      return {
        set(ms, onExpired) {
          entry.ms = ms;
          entry.expiresAt = clock.now() + ms;
          entry.onExpired = onExpired;
          entries.add(entry);
          if (!closed) cancel ??= clock.after(SWEEP_MS, sweep);
        },
        touch() {
          entry.expiresAt = clock.now() + entry.ms;
        },
        clear() {
          entries.delete(entry);
        },
      };
    },
    close() {
      closed = true;
      cancel?.();
      entries.clear();
    },
  };
}
