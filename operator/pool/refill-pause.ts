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
/** Over how long the rate of claims is measured. */
const RATE_MS = 1000;
/** A slower stream is none: what can be put off for it is not worth its being late. */
const LOWEST_RATE_PER_SECOND = 5;
/** A pod that waits longer for its claim is one that people see waiting. */
const SOON_MS = 10_000;

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
  /**
   * Milliseconds until a pod of the workload that becomes ready now is probably claimed; undefined where claims do not
   * come so fast that this is within ten seconds.
   *
   * @param workload.ready how many pods can be claimed, of which the one that has been ready longest goes first
   */
  turnMs(workload: { name: string; ready: number }): number | undefined;
  /** Whether no claim took a pod of the workload within the last second. */
  isCalm(workload: string): boolean;
  /** The pool lacks no pods. */
  filled(pool: string): void;
  /** The workload is gone. */
  forget(workload: string): void;
}

/** When the last pod was taken, and how many were until then, of which each counts the less the longer it is ago. */
interface Takes {
  readonly at: number;
  readonly weight: number;
}

export function createRefillPause(clock: Clock = systemClock): RefillPause {
  const taken = new Map<string, Takes>();
  const restores = new Map<string, number>();
  const lackingSince = new Map<string, number>();

  /** A clock that was set back makes the last claim no newer than one that was set forward. */
  function sinceLastMs(workload: string): number {
    return Math.abs(clock.now() - (taken.get(workload)?.at ?? Number.NEGATIVE_INFINITY));
  }

  function isCalm(workload: string): boolean {
    return sinceLastMs(workload) >= CALM_MS;
  }

  /** Claims a second. */
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
