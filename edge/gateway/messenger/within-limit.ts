import type { Clock } from "../../../crds/client/clock.ts";
import { linkedStop } from "./linked-stop.ts";

/**
 * Does the work with a signal that is aborted with the given one, or after `limitMs` milliseconds.
 *
 * @throws what the work throws, which is up to the work once its signal is aborted
 */
export async function withinLimit<T>(
  work: (signal: AbortSignal) => Promise<T>,
  options: { limitMs: number; clock: Clock; signal?: AbortSignal | undefined },
): Promise<T> {
  const { limitMs, clock, signal } = options;
  const stop = linkedStop(signal);
  const cancel = clock.after(limitMs, () => stop.abort(new Error(`no answer within ${limitMs / 1000} s`)));
  try {
    return await work(stop.signal);
  } finally {
    cancel();
    stop.close();
  }
}
