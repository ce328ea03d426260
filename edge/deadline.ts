import type { Clock } from "../crds/client/clock.ts";

/** A limit on how long a request waits. */
export interface Deadline {
  /** Aborted when the time is up. */
  readonly signal: AbortSignal;
  /** Ends the timer; the owner calls it when the wait is over. */
  close(): void;
}

/** Starts a limit of `ms` milliseconds. */
export function startDeadline(ms: number, clock: Clock): Deadline {
  const controller = new AbortController();
  const cancel = clock.after(ms, () => controller.abort());
  return { signal: controller.signal, close: cancel };
}
