import type { Clock } from "../../../crds/client/clock.ts";
import { onAbort } from "../../../crds/waits.ts";

/** A pause that can be ended early. */
export interface Waker {
  /** Waits `delayMs` milliseconds, or until somebody wakes it. @throws the signal's reason as soon as it is aborted */
  pause(delayMs: number, signal: AbortSignal): Promise<void>;
  /** Ends the pause that is under way. */
  wake(): void;
}

export function createWaker(clock: Clock): Waker {
  let wakeUp: (() => void) | undefined;
  return {
    pause: (delayMs, signal) =>
      new Promise((resolve, reject) => {
        if (signal.aborted) {
          reject(signal.reason);
          return;
        }
        const cancel = clock.after(delayMs, () => end(resolve));
        const ignoreAbort = onAbort(signal, () => end(() => reject(signal.reason)));
        function end(settle: () => void): void {
          cancel();
          ignoreAbort();
          wakeUp = undefined;
          settle();
        }
        wakeUp = () => end(resolve);
      }),
    wake: () => wakeUp?.(),
  };
}
