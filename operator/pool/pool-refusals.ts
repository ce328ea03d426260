import { type Backoff, createBackoff } from "../../crds/client/backoff.ts";
import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import type { PodRefusal } from "../pod/pod-refusal.ts";

const FIRST_WAIT_MS = 1000;
/** A watch shows changes of a quota at once. This is for causes without a watch: a policy, a limit, missing rights. */
const LONGEST_WAIT_MS = 30_000;

/**
 * The pools whose last pod the API server refused. A refusal does not show whether the pods would start, so it is not
 * counted as a failure. It is over as soon as one pod is accepted.
 */
export interface PoolRefusals {
  get(pool: string): PodRefusal | undefined;
  /** Milliseconds in which the pool starts no pod; 0 if it may. */
  waitMs(pool: string): number;
  refused(pool: string, refusal: PodRefusal): void;
  /** Takes over a refusal that another operator wrote; the pool tries at once again. */
  resume(pool: string, refusal: PodRefusal): void;
  /** A pod was accepted, or the pool lacks no pod, was edited or is gone. */
  forget(pool: string): void;
  /** A quota has more room: each refused pool tries at once. */
  roomMade(): void;
  /** A pod is gone, so a quota may have room soon: each refused pool tries within a second, unless it just has. */
  podGone(): void;
}

interface Refused extends PodRefusal {
  backoff: Backoff;
  at: number;
  nextTryAt: number;
}

/** @param options.onChange called for a pool that was refused, is not refused any more, or may try again */
export function createPoolRefusals({
  onChange,
  clock = steadyClock,
}: {
  onChange: (pool: string) => void;
  clock?: Clock;
}): PoolRefusals {
  const pools = new Map<string, Refused>();
  const newBackoff = () => createBackoff({ initialMs: FIRST_WAIT_MS, maxMs: LONGEST_WAIT_MS });

  return {
    get: (pool) => pools.get(pool),
    waitMs: (pool) => Math.max(0, (pools.get(pool)?.nextTryAt ?? 0) - clock.now()),
    refused(pool, { reason, message }) {
      const { backoff = newBackoff(), nextTryAt = 0 } = pools.get(pool) ?? {};
      const now = clock.now();
      // Pods that were refused together share one wait.
      const next = now < nextTryAt ? nextTryAt : now + backoff.next();
      pools.set(pool, { reason, message, backoff, at: now, nextTryAt: next });
      onChange(pool);
    },
    resume(pool, { reason, message }) {
      const now = clock.now();
      pools.set(pool, { reason, message, backoff: newBackoff(), at: now, nextTryAt: now });
    },
    forget(pool) {
      if (pools.delete(pool)) onChange(pool);
    },
    roomMade() {
      for (const [pool, refused] of pools) {
        // Admission may see the change a moment later than this operator.
        refused.backoff.reset();
        refused.nextTryAt = clock.now();
        onChange(pool);
      }
    },
    podGone() {
      for (const [pool, refused] of pools) {
        const soon = Math.max(clock.now(), refused.at + FIRST_WAIT_MS);
        if (soon >= refused.nextTryAt) continue;
        refused.nextTryAt = soon;
        onChange(pool);
      }
    },
  };
}
