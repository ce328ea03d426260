import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import type { EventRecorder } from "../../crds/client/event-recorder.ts";
import { pools } from "../../crds/kinds.ts";
import type { Pool } from "../../crds/pool.ts";

/** A repeated Event costs three requests. The metrics count each one, and the pool's status shows the present state. */
const INTERVAL_MS = 300_000;

/** Warnings about pools that each claim or each pod can cause. */
export interface PoolEvents {
  /** Records an Event on a pool, at most one in five minutes for each reason. */
  warn(pool: Pool, event: { reason: string; message: string }): void;
  /** The pool is gone. */
  forget(pool: string): void;
}

export function createPoolEvents({
  events,
  clock = steadyClock,
}: {
  events: Pick<EventRecorder, "record">;
  clock?: Clock;
}): PoolEvents {
  /** By pool and reason. */
  const recordedAt = new Map<string, Map<string, number>>();

  return {
    warn(pool, { reason, message }) {
      const { name } = pool.metadata;
      const ofPool = recordedAt.get(name) ?? new Map<string, number>();
      if (clock.now() - (ofPool.get(reason) ?? Number.NEGATIVE_INFINITY) < INTERVAL_MS) return;
      recordedAt.set(name, ofPool.set(reason, clock.now()));
      events.record({ resource: pools, object: pool, type: "Warning", reason, message });
    },
    forget: (pool) => void recordedAt.delete(pool),
  };
}
