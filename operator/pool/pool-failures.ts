import { type Backoff, createBackoff } from "../../crds/client/backoff.ts";
import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import { keyOf } from "../../crds/client/watch/store.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { podState } from "../pod/pod-state.ts";

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 300_000;
// From here on one pod at a time is tried: what failed twice is not one pod's bad luck.
const FAILURES_UNTIL_DEGRADED = 2;
// Without a health check a pod is ready as soon as its program runs, also one that ends right after.
const PROOF_MS = 10_000;

/** How a pool's pods have been failing since one last started well. */
export interface PoolFailures {
  count: number;
  /** What was wrong with the last one. */
  message: string;
}

export interface FailureRecord {
  get(pool: string): PoolFailures | undefined;
  isDegraded(pool: string): boolean;
  /** Milliseconds in which the pool starts no pod; 0 if it may. */
  waitMs(pool: string): number;
  failed(pool: string, message: string): void;
  /** Takes over from an operator that has found the pool degraded. */
  resume(pool: string, message: string): void;
  /** A pod of the pool became ready, which it has to stay before the failures are forgotten. */
  started(pool: string, pod: Pod): void;
  /**
   * Forgets the failures of a pool of which a pod has stayed ready since the last one, for 10 s without a restart;
   * whether a tenant has it by now does not matter.
   *
   * @param find the pod of that key as it is now
   * @returns milliseconds until it is time to look again; undefined where a pod that becomes ready is the next reason
   */
  review(pool: string, find: (key: string) => Pod | undefined): number | undefined;
  /** The pool is another one now. */
  forget(pool: string): void;
}

interface Start {
  since: number;
  restarts: number;
}

/**
 * Remembers failures by the pools' names, for as long as this process leads.
 *
 * @param options.onChange called for a pool that has failed, begun to start or been forgotten
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
      // Pods that were started together fail together: one wait for all of them.
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
