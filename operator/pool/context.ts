import { resourceQuotas } from "../../crds/client/built-in-resources.ts";
import type { EventRecorder } from "../../crds/client/event-recorder.ts";
import type { Informer } from "../../crds/client/watch/informer.ts";
import type { ResourceQuota } from "../../crds/kubernetes.ts";
import type { IndexedBy, StartInformer } from "../informers.ts";
import type { PodContext } from "../pod/context.ts";
import type { RoomMemory } from "../room/context.ts";
import type { workloadIndexes } from "../workload/context.ts";
import { createPoolEvents, type PoolEvents } from "./pool-events.ts";
import { createFailureRecord, type FailureRecord } from "./pool-failures.ts";
import { poolIndex, warmIndex } from "./pool-member.ts";
import { createPoolRefusals, type PoolRefusals } from "./pool-refusals.ts";
import { createPoolSizes, type PoolSizes } from "./pool-sizes.ts";
import { createPromisedPods, type PromisedPods } from "./promised-pods.ts";
import { createRefillPause, type RefillPause } from "./refill-pause.ts";
import { createSeenTimes, type SeenTimes } from "./seen-times.ts";

export const poolIndexes = { pods: { pool: poolIndex, warm: warmIndex } };

/** With the role of an earlier version, an operator may not read quotas, and logs each attempt. */
const QUOTAS_BACKOFF_MS = 60_000;

/** Memory about pools and their pods, until these are gone. */
export interface PoolMemory {
  poolFailures: FailureRecord;
  poolRefusals: PoolRefusals;
  poolEvents: PoolEvents;
  poolSizes: PoolSizes;
  refillPause: RefillPause;
  promisedPods: PromisedPods;
  /** Of unclaimed pods that are not ready. */
  seenTimes: SeenTimes;
}

export interface PoolContext extends PodContext, PoolMemory, RoomMemory {
  informers: PodContext["informers"] &
    IndexedBy<typeof workloadIndexes> &
    IndexedBy<typeof poolIndexes> &
    PoolInformers;
}

export interface PoolInformers {
  readonly resourceQuotas: Informer<ResourceQuota, never>;
}

export function startPoolInformers(start: StartInformer): PoolInformers {
  const timings = { maxBackoffMs: QUOTAS_BACKOFF_MS };
  return { resourceQuotas: start({ isOptional: true, resource: resourceQuotas, indexes: {}, timings }) };
}

/** @param options.onChange called for a pool that may start pods again, or may not any more */
export function createPoolMemory({
  events,
  onChange,
}: {
  events: Pick<EventRecorder, "record">;
  onChange: (pool: string) => void;
}): PoolMemory {
  return {
    poolFailures: createFailureRecord({ onChange }),
    poolRefusals: createPoolRefusals({ onChange }),
    poolEvents: createPoolEvents({ events }),
    poolSizes: createPoolSizes({ onChange }),
    refillPause: createRefillPause(),
    promisedPods: createPromisedPods(),
    seenTimes: createSeenTimes(),
  };
}

/** Call this when the pool is gone. */
export function forgetPool(name: string, memory: PoolMemory): void {
  memory.poolEvents.forget(name);
  memory.poolFailures.forget(name);
  memory.poolRefusals.forget(name);
  memory.poolSizes.forget(name);
  memory.refillPause.filled(name);
}
