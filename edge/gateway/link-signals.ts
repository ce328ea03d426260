import { onAbort } from "../../crds/waits.ts";

/** A signal that follows several others. */
export interface LinkedSignal {
  readonly signal: AbortSignal;
  /** Ends the following; the owner calls it when the work is over, else long-lived signals would keep it alive. */
  close(): void;
}

/** Makes a signal that is aborted, with the same reason, as soon as one of the signals is. */
export function linkSignals(...signals: readonly AbortSignal[]): LinkedSignal {
  const controller = new AbortController();
  const ends = signals.map((signal) => {
    if (signal.aborted) controller.abort(signal.reason);
    return onAbort(signal, () => controller.abort(signal.reason));
  });
  return {
    signal: controller.signal,
    close() {
      for (const end of ends) end();
    },
  };
}
