import type { Claim, ReleasedFiles } from "../../crds/claim.ts";
import { type ClaimKey, claimKey } from "../../crds/claims/claim-key.ts";
import { onAbort } from "../../crds/waits.ts";

const MOST_RELEASED = 1000;

/** Calls that wait for the next change of a key's claims or pods, reported by the shared watches. */
export interface ClaimWaiters {
  /** Resolves every call that waits on the key. @param claim the changed claim, if a claim changed */
  changed(key: ClaimKey, claim?: Claim): void;
  /** Resolves at the key's next change, or when a signal aborts; the caller must look again in both cases. */
  next(key: ClaimKey, signals: readonly (AbortSignal | undefined)[]): Promise<void>;
  /** What happened to the files of a deleted claim; undefined if the watch did not show it, or too long ago. */
  filesOf(uid: string): ReleasedFiles | undefined;
  /** Number of waiting calls. */
  readonly size: number;
}

/** Makes an empty registry of waiting calls. */
export function createClaimWaiters(): ClaimWaiters {
  const waiting = new Map<string, Set<() => void>>();
  const released = new Map<string, ReleasedFiles>();
  let size = 0;
  return {
    changed(key, claim) {
      // The claim's deletion may arrive before the wait for its files starts.
      const { uid } = claim?.metadata ?? {};
      const files = claim?.status?.files;
      if (uid !== undefined && files !== undefined) {
        released.set(uid, files);
        const [oldest] = released.keys();
        if (released.size > MOST_RELEASED && oldest !== undefined) released.delete(oldest);
      }
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
    filesOf: (uid) => released.get(uid),
    get size() {
      return size;
    },
  };
}
