import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import type { EventRecorder } from "../../crds/client/event-recorder.ts";
import { pools } from "../../crds/kinds.ts";
import type { Pool } from "../../crds/pool.ts";

/** A repeated Event costs three requests. The metrics count each one, and the pool's status shows the present state. */
const INTERVAL_MS = 300_000;

/** Events about pools that each claim or each pod can cause: at most one in five minutes for each pool and reason. */
export interface PoolEvents {
  warn(pool: Pool, event: { reason: string; message: string }): void;
  /** As {@link warn}, of what needs no repair. */
  note(pool: Pool, event: { reason: string; message: string }): void;
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

  function record(
    pool: Pool,
    { type, reason, message }: { type: "Normal" | "Warning"; reason: string; message: string },
  ) {
    const { name } = pool.metadata;
    const ofPool = recordedAt.get(name) ?? new Map<string, number>();
    if (clock.now() - (ofPool.get(reason) ?? Number.NEGATIVE_INFINITY) < INTERVAL_MS) return;
    recordedAt.set(name, ofPool.set(reason, clock.now()));
    events.record({ resource: pools, object: pool, type, reason, message });
  }

  return {
    warn: (pool, event) => record(pool, { type: "Warning", ...event }),
    note: (pool, event) => record(pool, { type: "Normal", ...event }),
    forget: (pool) => void recordedAt.delete(pool),
  };
}
