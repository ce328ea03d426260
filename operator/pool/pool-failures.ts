import { type Backoff, createBackoff } from "../../crds/client/backoff.ts";

const FIRST_WAIT_MS = 1000;
const LONGEST_WAIT_MS = 300_000;
// From here on one pod at a time is tried: what failed so often is not the pod's bad luck.
const FAILURES_UNTIL_DEGRADED = 3;

/** How a pool's pods have been failing since one last became ready. */
export interface PoolFailures {
  count: number;
  /** What was wrong with the last one. */
  message: string;
  /** No pod is started before then, in milliseconds since the epoch. */
  nextTryAt: number;
}

export interface FailureRecord {
  get(pool: string): PoolFailures | undefined;
  isDegraded(pool: string): boolean;
  failed(pool: string, message: string): void;
  /** A pod of the pool became ready, or the pool is another one now. */
  forget(pool: string): void;
}

/** Remembers failures by the pools' names, for as long as this process leads. */
export function createFailureRecord(): FailureRecord {
  const pools = new Map<string, PoolFailures & { backoff: Backoff }>();
  return {
    get: (pool) => pools.get(pool),
    isDegraded: (pool) => (pools.get(pool)?.count ?? 0) >= FAILURES_UNTIL_DEGRADED,
    failed(pool, message) {
      const record = pools.get(pool) ?? {
        count: 0,
        message,
        nextTryAt: 0,
        backoff: createBackoff({ initialMs: FIRST_WAIT_MS, maxMs: LONGEST_WAIT_MS }),
      };
      // Pods that were started together fail together: one wait for all of them.
      if (Date.now() >= record.nextTryAt) record.nextTryAt = Date.now() + record.backoff.next();
      record.count += 1;
      record.message = message;
      pools.set(pool, record);
    },
    forget(pool) {
      pools.delete(pool);
    },
  };
}
