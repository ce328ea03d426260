import { type Clock, steadyClock } from "../../crds/client/clock.ts";

export const STEP_SECONDS = 5;
export const HOUR_SECONDS = 3600;
const STEPS = HOUR_SECONDS / STEP_SECONDS;
const MOST_OF_A_STEP = 2 ** 16 - 1;

/**
 * The claims of each workload in the last hour, and how many of them found no warm pod. A workload takes 1.5 KB from
 * its first claim on, however many claims and tenants follow.
 */
export interface Arrivals {
  /** A claim was made that long ago. */
  arrived(workload: string, ageMs: number): void;
  /** A claim found no warm pod. */
  missed(workload: string): void;
  /** Claims of each {@link STEP_SECONDS}, the oldest first; undefined without a claim in the last hour. */
  read(workload: string): Uint16Array | undefined;
  /** Misses since the start of this process's term. */
  missesOf(workload: string): number;
  /** The workload is gone. */
  forget(workload: string): void;
}

interface Recorded {
  /** The step of the last entry, counted from the clock's zero. */
  step: number;
  /** The last hour until `step`, as a ring: a step's entry is at its number modulo the length. */
  readonly counts: Uint16Array;
  misses: number;
}

export function createArrivals(clock: Clock = steadyClock): Arrivals {
  const workloads = new Map<string, Recorded>();
  const stepNow = () => Math.floor(clock.now() / (STEP_SECONDS * 1000));

  /** Empties the entries of the steps since the last one, of which there are at most as many as the ring has. */
  function advanced(recorded: Recorded): Recorded {
    const now = Math.max(recorded.step, stepNow());
    if (now - recorded.step >= STEPS) recorded.counts.fill(0);
    else for (let step = recorded.step + 1; step <= now; step += 1) recorded.counts[step % STEPS] = 0;
    recorded.step = now;
    return recorded;
  }

  function recordOf(workload: string): Recorded {
    const recorded = workloads.get(workload) ?? { step: stepNow(), counts: new Uint16Array(STEPS), misses: 0 };
    workloads.set(workload, recorded);
    return advanced(recorded);
  }

  return {
    arrived(workload, ageMs) {
      const stepsAgo = Math.floor(ageMs / (STEP_SECONDS * 1000));
      if (stepsAgo >= STEPS) return;
      const { counts, step } = recordOf(workload);
      const at = (step - Math.max(0, stepsAgo) + STEPS) % STEPS;
      counts[at] = Math.min(MOST_OF_A_STEP, (counts[at] ?? 0) + 1);
    },
    missed(workload) {
      recordOf(workload).misses += 1;
    },
    read(workload) {
      const recorded = workloads.get(workload);
      if (recorded === undefined) return undefined;
      const { counts, step } = advanced(recorded);
      const ordered = new Uint16Array(STEPS);
      const oldest = (step + 1) % STEPS;
      ordered.set(counts.subarray(oldest));
      ordered.set(counts.subarray(0, oldest), STEPS - oldest);
      return ordered;
    },
    missesOf: (workload) => workloads.get(workload)?.misses ?? 0,
    forget: (workload) => void workloads.delete(workload),
  };
}
