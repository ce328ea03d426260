import { type Clock, systemClock } from "../../crds/client/clock.ts";

/** While claims follow each other this fast, they go before the refill. */
const QUIET_MS = 100;
/** The refill waits at most so long after the first missing pod: a steady stream of claims may not empty the pool. */
const LONGEST_MS = 1000;
/** The refill does not wait if fewer pods than this are left, or less than half of a smaller pool. */
const RESERVE = 20;
/** After so long without a claim, a pool is filled at full speed. */
const CALM_MS = 1000;
/** The time over which the rate of claims is measured. */
const RATE_MS = 1000;
/** At a lower rate, `turnMs` is undefined: to delay a label would save too few writes. */
const LOWEST_RATE_PER_SECOND = 5;
/** A person would notice a label that is later than this. */
const SOON_MS = 10_000;

/**
 * Delays the refill behind the burst of claims that caused it: each new pod costs the API server and the kubelet more
 * writes than a claim does, and no claim waits for it yet.
 */
export interface RefillPause {
  /** A claim took a warm pod of the workload. */
  taken(workload: string): void;
  /** A claim's files are being restored into a pod of the workload, until the returned function is called. */
  restoring(workload: string): () => void;
  /** Milliseconds for which a pool that lacks pods should start none; 0: start them now. */
  waitMs(pool: { name: string; workload: string; size: number; ready: number }): number;
  /**
   * The share of `maxFillConcurrency` that a pool may use now, from 0 to 1. While claims arrive, it grows with the
   * number of missing pods. So under a steady stream, the refill runs at the pace of the claims, not in bursts that
   * delay them.
   */
  share(pool: { workload: string; size: number; ready: number; missing: number }): number;
  /**
   * Milliseconds until a pod of the workload that becomes ready now will probably be claimed; undefined if that takes
   * longer than 10 s at the present rate of claims.
   *
   * @param workload.ready the number of claimable pods; claims take the one that has been ready longest
   */
  turnMs(workload: { name: string; ready: number }): number | undefined;
  /** Whether no claim took a pod of the workload within the last second. */
  isCalm(workload: string): boolean;
  /** The pool lacks no pods. */
  filled(pool: string): void;
  /** The workload is gone. */
  forget(workload: string): void;
}

/** When the last pod was taken, and the number of taken pods until then, each weighted less the older it is. */
interface Takes {
  readonly at: number;
  readonly weight: number;
}

export function createRefillPause(clock: Clock = systemClock): RefillPause {
  const taken = new Map<string, Takes>();
  const restores = new Map<string, number>();
  const lackingSince = new Map<string, number>();

  /** An absolute value: a clock that was set back must not make the last claim seem new for long. */
  function sinceLastMs(workload: string): number {
    return Math.abs(clock.now() - (taken.get(workload)?.at ?? Number.NEGATIVE_INFINITY));
  }

  function isCalm(workload: string): boolean {
    return sinceLastMs(workload) >= CALM_MS;
  }

  /** Claims per second. */
  function rateOf(workload: string): number {
    const weight = taken.get(workload)?.weight ?? 0;
    return (weight * Math.exp(-sinceLastMs(workload) / RATE_MS) * 1000) / RATE_MS;
  }

  return {
    isCalm,
    taken(workload) {
      const at = clock.now();
      taken.set(workload, { at, weight: (rateOf(workload) * RATE_MS) / 1000 + 1 });
    },
    turnMs({ name, ready }) {
      const rate = rateOf(name);
      const turnMs = (ready / rate) * 1000;
      return isCalm(name) || rate < LOWEST_RATE_PER_SECOND || turnMs > SOON_MS ? undefined : turnMs;
    },
    restoring(workload) {
      const count = (by: number) => restores.set(workload, (restores.get(workload) ?? 0) + by);
      count(1);
      return () => count(-1);
    },
    waitMs({ name, workload, size, ready }) {
      const now = clock.now();
      const since = Math.min(lackingSince.get(name) ?? now, now);
      lackingSince.set(name, since);
      if (ready < Math.min(RESERVE, size / 2)) return 0;
      const quietForMs = (restores.get(workload) ?? 0) > 0 ? 0 : sinceLastMs(workload);
      return Math.max(0, Math.min(QUIET_MS - quietForMs, since + LONGEST_MS - now));
    },
    share({ workload, size, ready, missing }) {
      if (isCalm(workload) || ready < Math.min(RESERVE, size / 2)) return 1;
      return Math.min(1, (2 * missing) / size);
    },
    filled(pool) {
      lackingSince.delete(pool);
    },
    forget: (workload) => void taken.delete(workload),
  };
}
