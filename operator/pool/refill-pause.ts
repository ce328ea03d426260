import { type Clock, systemClock } from "../../crds/client/clock.ts";

/** As long as claims keep coming this fast, they come first. */
const QUIET_MS = 100;
/**
 * But no longer than this from the first pod that is missing, so that a steady stream of claims does not keep a pool
 * empty.
 */
const LONGEST_MS = 1000;
/** Nor when fewer than so many pods are left, or than half of a smaller pool. */
const RESERVE = 20;
/** After that long without a claim a pool is filled as fast as it may be. */
const CALM_MS = 1000;

/**
 * Lets a burst of claims go before the refill that it causes: each refilled pod costs the API server and the kubelet
 * more writes than a claim does, and nobody waits for it yet.
 */
export interface RefillPause {
  /** A claim took a warm pod of the workload. */
  taken(workload: string): void;
  /** A claim's files are on their way into a pod of the workload, until the function that this gives is called. */
  restoring(workload: string): () => void;
  /** Milliseconds that a pool which lacks pods should wait before it starts some; 0: start them now. */
  waitMs(pool: { name: string; workload: string; size: number; ready: number }): number;
  /**
   * Which share of its pods at once a pool may start now, from 0 to 1: while claims come, no more than the pool's
   * emptiness asks for. Under a steady stream the refill then goes at the pace of the claims, and not in bursts that
   * they wait behind.
   */
  share(pool: { workload: string; size: number; ready: number; missing: number }): number;
  /** The pool lacks no pods. */
  filled(pool: string): void;
}

export function createRefillPause(clock: Clock = systemClock): RefillPause {
  const takenAt = new Map<string, number>();
  const restores = new Map<string, number>();
  const lackingSince = new Map<string, number>();
  return {
    taken(workload) {
      takenAt.set(workload, clock.now());
    },
    restoring(workload) {
      const count = (by: number) => restores.set(workload, (restores.get(workload) ?? 0) + by);
      count(1);
      return () => count(-1);
    },
    waitMs({ name, workload, size, ready }) {
      const now = clock.now();
      const since = lackingSince.get(name) ?? now;
      lackingSince.set(name, since);
      if (ready < Math.min(RESERVE, size / 2)) return 0;
      const lastAt = (restores.get(workload) ?? 0) > 0 ? now : (takenAt.get(workload) ?? Number.NEGATIVE_INFINITY);
      const quietAt = lastAt + QUIET_MS;
      return Math.max(0, Math.min(quietAt, since + LONGEST_MS) - now);
    },
    share({ workload, size, ready, missing }) {
      const isCalm = clock.now() - (takenAt.get(workload) ?? Number.NEGATIVE_INFINITY) >= CALM_MS;
      if (isCalm || ready < Math.min(RESERVE, size / 2)) return 1;
      return Math.min(1, (2 * missing) / size);
    },
    filled(pool) {
      lackingSince.delete(pool);
    },
  };
}
