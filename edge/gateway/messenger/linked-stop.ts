import { onAbort } from "../../../crds/waits.ts";

/** A stop of its own that also follows others. */
export interface LinkedStop {
  readonly signal: AbortSignal;
  abort(reason?: unknown): void;
  /** Follows the others no longer; whoever made it calls this at the end. */
  close(): void;
}

/** A stop that any of the signals triggers. `AbortSignal.any` would stay registered with signals that live as long as the process. */
export function linkedStop(...signals: readonly (AbortSignal | undefined)[]): LinkedStop {
  const controller = new AbortController();
  const unlink = signals.map((signal) => {
    if (signal?.aborted) controller.abort(signal.reason);
    return onAbort(signal, () => controller.abort(signal?.reason));
  });
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    close() {
      for (const end of unlink) end();
    },
  };
}
