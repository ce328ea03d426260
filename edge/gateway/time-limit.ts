import type { Clock } from "../../crds/client/clock.ts";
import { onAbort } from "../../crds/waits.ts";

/** Something that took longer than it may. */
export class TimeLimitError extends Error {
  override readonly name = "TimeoutError";
}

/**
 * Does the work under a signal that is aborted when the time is up or `signal` is; the work has to end then, with the signal's reason.
 *
 * @param limit.what is limited, for the error's message
 * @param limit.ms milliseconds
 * @throws TimeLimitError when the time was up
 */
export async function withTimeLimit<T>(
  limit: { what: string; ms: number; clock: Clock; signal: AbortSignal },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { what, ms, clock, signal } = limit;
  signal.throwIfAborted();
  const controller = new AbortController();
  const cancel = clock.after(ms, () => controller.abort(new TimeLimitError(`${what} took longer than ${ms / 1000} s`)));
  const ignoreAbort = onAbort(signal, () => controller.abort(signal.reason));
  try {
    return await work(controller.signal);
  } finally {
    cancel();
    ignoreAbort();
  }
}
