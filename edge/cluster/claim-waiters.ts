import type { ClaimPair } from "./claim-key.ts";
import { pairKey } from "./claim-key.ts";

/** Calls that wait for the next change of a (tenant, workload) pair's claims or pods, woken by the shared watches. */
export interface ClaimWaiters {
  /** Wakes everyone who waits on the pair. */
  wake(pair: ClaimPair): void;
  /** Resolves at the pair's next change, or once one of the signals aborts; look again either way. */
  next(pair: ClaimPair, signals: readonly (AbortSignal | undefined)[]): Promise<void>;
  /** How many calls wait. */
  readonly size: number;
}

/** Makes an empty registry of waiting calls. */
export function createClaimWaiters(): ClaimWaiters {
  const waiting = new Map<string, Set<() => void>>();
  let size = 0;
  return {
    wake(pair) {
      for (const resolve of [...(waiting.get(pairKey(pair)) ?? [])]) resolve();
    },
    next(pair, signals) {
      if (signals.some((signal) => signal?.aborted)) return Promise.resolve();
      const key = pairKey(pair);
      return new Promise((resolve) => {
        const calls = waiting.get(key) ?? new Set();
        waiting.set(key, calls);
        calls.add(done);
        size += 1;
        for (const signal of signals) signal?.addEventListener("abort", done);

        function done(): void {
          if (!calls.delete(done)) return;
          size -= 1;
          if (calls.size === 0 && waiting.get(key) === calls) waiting.delete(key);
          for (const signal of signals) signal?.removeEventListener("abort", done);
          resolve();
        }
      });
    },
    get size() {
      return size;
    },
  };
}
