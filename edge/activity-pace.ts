import type { Clock } from "../crds/client/clock.ts";

/** Chooses how often the uses of a pod without an idle timeout are written; only people read them. */
export interface ActivityPace {
  /** The minimum time between the last write and the write of a use `lagMs` later. */
  spacingMs(pod: string, lagMs: number): number;
  /** Records that a use was written. */
  wrote(pod: string): void;
}

/** A lag that a person does not notice: a use within this time of the last write is not written. */
const UNNOTICED_LAG_MS = 5000;
const QUIET_MS = 120_000;

/**
 * Makes a pace that follows a person's uses and costs a busy pod at most one write a minute: uses are written 5 s apart
 * after a quiet time, then 10, 20, 40 and 60 s apart. So a shown use is never older than 5 s or the time that the pod
 * has been in use, whichever is longer, and never older than a minute.
 */
export function createActivityPace(clock: Clock, longestMs: number): ActivityPace {
  // Ordered by last write.
  const streaks = new Map<string, { readonly spacingMs: number; readonly until: number }>();

  function dropEnded(): void {
    for (const [pod, { until }] of streaks) {
      if (until > clock.now()) return;
      streaks.delete(pod);
    }
  }

  return {
    spacingMs(pod, lagMs) {
      if (lagMs <= UNNOTICED_LAG_MS) return longestMs;
      dropEnded();
      return streaks.get(pod)?.spacingMs ?? UNNOTICED_LAG_MS;
    },
    wrote(pod) {
      dropEnded();
      const before = streaks.get(pod)?.spacingMs ?? UNNOTICED_LAG_MS;
      streaks.delete(pod);
      streaks.set(pod, { spacingMs: Math.min(before * 2, longestMs), until: clock.now() + QUIET_MS });
    },
  };
}
