import { type ClaimKey, claimKey } from "../../crds/claims/claim-key.ts";
import { onAbort } from "../../crds/waits.ts";

/** Calls that wait for the next change of a key's claims or pods, which the shared watches report. */
export interface ClaimWaiters {
  /** Resolves every call that waits on the key. */
  changed(key: ClaimKey): void;
  /** Resolves at the key's next change, or once one of the signals aborts; look again either way. */
  next(key: ClaimKey, signals: readonly (AbortSignal | undefined)[]): Promise<void>;
  /** How many calls wait. */
  readonly size: number;
}

/** Makes an empty registry of waiting calls. */
export function createClaimWaiters(): ClaimWaiters {
  const waiting = new Map<string, Set<() => void>>();
  let size = 0;
  return {
    changed(key) {
      for (const resolve of [...(waiting.get(claimKey(key)) ?? [])]) resolve();
    },
    next(key, signals) {
      if (signals.some((signal) => signal?.aborted)) return Promise.resolve();
      const id = claimKey(key);
      return new Promise((resolve) => {
        const calls = waiting.get(id) ?? new Set();
        waiting.set(id, calls);
        calls.add(done);
        size += 1;
        const ignored = signals.map((signal) => onAbort(signal, done));

        function done(): void {
          if (!calls.delete(done)) return;
          size -= 1;
          if (calls.size === 0 && waiting.get(id) === calls) waiting.delete(id);
          for (const ignoreAbort of ignored) ignoreAbort();
          resolve();
        }
      });
    },
    get size() {
      return size;
    },
  };
}
