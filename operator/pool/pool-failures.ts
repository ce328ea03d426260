import { type Backoff, createBackoff } from "../../crds/client/backoff.ts";
import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import { keyOf } from "../../crds/client/watch/store.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { podState } from "../pod/pod-state.ts";

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 300_000;
// From here on one pod at a time is started: two failures are not the bad luck of one pod.
const FAILURES_UNTIL_DEGRADED = 2;
// Without a health check, a pod is ready as soon as its program runs, even if the program ends right after.
const PROOF_MS = 10_000;

/** The failures of a pool's pods since the last good start. */
export interface PoolFailures {
  count: number;
  /** Why the last one failed. */
  message: string;
}

export interface FailureRecord {
  get(pool: string): PoolFailures | undefined;
  isDegraded(pool: string): boolean;
  /** Milliseconds in which the pool starts no pod; 0 if it may. */
  waitMs(pool: string): number;
  failed(pool: string, message: string): void;
  /** Takes over the failures of a pool that an earlier leader found degraded. */
  resume(pool: string, message: string): void;
  /** A pod of the pool became ready. It has to stay ready before the failures are forgotten. */
  started(pool: string, pod: Pod): void;
  /**
   * Forgets a pool's failures once a pod that started after the last one has stayed ready for 10 s without a restart. A
   * pod that a claim has taken in the meantime counts too.
   *
   * @param find returns the present pod of a key
   * @returns milliseconds until the next review; undefined if only another pod that becomes ready needs one
   */
  review(pool: string, find: (key: string) => Pod | undefined): number | undefined;
  /** The pool was edited, or is gone. */
  forget(pool: string): void;
}

interface Start {
  since: number;
  restarts: number;
}

/**
 * Stores failures by pool name, for as long as this process leads.
 *
 * @param options.onChange called for a pool when a pod has failed or become ready, or its failures are forgotten
 */
export function createFailureRecord({
  onChange,
  clock = steadyClock,
}: {
  onChange: (pool: string) => void;
  clock?: Clock;
}): FailureRecord {
  const pools = new Map<string, PoolFailures & { nextTryAt: number; backoff: Backoff; starts: Map<string, Start> }>();

  function forget(pool: string): void {
    if (pools.delete(pool)) onChange(pool);
  }

  function open(message: string) {
    const backoff = createBackoff({ initialMs: FIRST_WAIT_MS, maxMs: LONGEST_WAIT_MS });
    return { count: 0, message, nextTryAt: 0, backoff, starts: new Map<string, Start>() };
  }

  return {
    get: (pool) => pools.get(pool),
    isDegraded: (pool) => (pools.get(pool)?.count ?? 0) >= FAILURES_UNTIL_DEGRADED,
    waitMs: (pool) => Math.max(0, (pools.get(pool)?.nextTryAt ?? 0) - clock.now()),
    failed(pool, message) {
      const record = pools.get(pool) ?? open(message);
      // Pods that were started together fail together: they share one wait.
      if (clock.now() >= record.nextTryAt) record.nextTryAt = clock.now() + record.backoff.next();
      record.count += 1;
      record.message = message;
      record.starts.clear();
      pools.set(pool, record);
      onChange(pool);
    },
    resume(pool, message) {
      pools.set(pool, { ...open(message), count: FAILURES_UNTIL_DEGRADED });
    },
    started(pool, pod) {
      const record = pools.get(pool);
      if (record === undefined) return;
      record.starts.set(keyOf(pod), { since: clock.now(), restarts: restartsOf(pod) });
      onChange(pool);
    },
    review(pool, find) {
      const { starts = new Map<string, Start>() } = pools.get(pool) ?? {};
      let leftMs: number | undefined;
      for (const [key, start] of starts) {
        const pod = find(key);
        const state = pod === undefined ? "lost" : podState(pod).state;
        if (pod === undefined || state === "lost") {
          starts.delete(key);
          continue;
        }
        const restarts = restartsOf(pod);
        const since = state === "ready" && restarts === start.restarts ? start.since : clock.now();
        if (clock.now() - since >= PROOF_MS) {
          forget(pool);
          return undefined;
        }
        starts.set(key, { since, restarts });
        leftMs = Math.min(leftMs ?? PROOF_MS, since + PROOF_MS - clock.now());
      }
      return leftMs;
    },
    forget,
  };
}

function restartsOf({ status }: Pod): number {
  return (status?.containerStatuses ?? []).reduce((sum, { restartCount = 0 }) => sum + restartCount, 0);
}
