import type { Clock } from "./clock.ts";
import { onAbort } from "./on-abort.ts";

/**
 * Waits `delayMs` milliseconds.
 *
 * @throws the signal's reason as soon as it is aborted
 */
export function sleep(delayMs: number, options: { clock: Clock; signal?: AbortSignal | undefined }): Promise<void> {
  const { clock, signal } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const cancel = clock.after(delayMs, () => {
      ignoreAbort();
      resolve();
    });
    const ignoreAbort = onAbort(signal, () => {
      cancel();
      reject(signal?.reason);
    });
  });
}
