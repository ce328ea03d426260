import type { Claim } from "../../crds/claim.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { Pool } from "../../crds/pool.ts";
import { isClaimed, poolIndex, poolPlace } from "../cluster/slim-pod.ts";
import { createTimeBuckets, type TimeBuckets } from "./time-buckets.ts";

/** The pods of a pool in the last hour, as recorded by this process. */
export interface PoolHistory {
  /** Adds a change of a pod, after the store has it. */
  onPod(change: Change<Pod>): void;
  /** Adds a change of a claim. */
  onClaim(change: Change<Claim>): void;
  /** The hour of a pool in buckets of {@link POOL_STEP_SECONDS}, oldest first. */
  read(pool: string): PoolHour;
}

export interface PoolHour {
  /** When the first bucket began, in milliseconds since the epoch. */
  readonly from: number;
  /** Ready pods at the end of each bucket. */
  readonly ready: number[];
  /** The fewest ready pods in it: a burst empties a pool for less than a bucket. */
  readonly lowest: number[];
  /** Starting pods at its end. */
  readonly warming: number[];
  /** Pods that became ready. */
  readonly refilled: number[];
  /** Pods that were given to a claim. */
  readonly hits: number[];
  /** Claims of the pool's workload that became Active with a cold pod. */
  readonly misses: number[];
}

export const POOL_STEP_SECONDS = 10;
const BUCKETS = 360;
/** 8.6 KB each; beyond that the pool without changes for the longest time is dropped. */
const MAX_POOLS = 256;
const [READY, LOWEST, WARMING, REFILLED, HITS, MISSES, COLUMNS] = [0, 1, 2, 3, 4, 5, 6] as const;

/** The part of the edge's cache that is read. */
type PodsByPool = { readonly store: { by(index: "pool", value: string): { readonly size: number } } };
type PoolsByWorkload = { readonly store: { by(index: "workload", value: string): Iterable<Pool> } };

/** The unclaimed pods of a pool. */
interface Depth {
  readonly ready: number;
  readonly warming: number;
}

/**
 * Makes the history of all pools. A pool uses memory from its first change on; a pool without changes always held what
 * it holds now.
 *
 * @param options.cache current pods
 * @param options.now milliseconds since the epoch
 */
export function createPoolHistory(options: {
  cache: () => { readonly pods: PodsByPool; readonly pools?: PoolsByWorkload | undefined };
  now: () => number;
}): PoolHistory {
  const { cache, now } = options;
  /** The most recently changed pool comes last. */
  const pools = new Map<string, TimeBuckets>();
  /** A pool that is not stored has had no change since then. */
  let silentSince = now();

  function bucketsOf({ ready, warming }: Depth): TimeBuckets {
    return createTimeBuckets({
      ...{ stepMs: POOL_STEP_SECONDS * 1000, count: BUCKETS, width: COLUMNS, now },
      from: silentSince,
      first: [ready, ready, warming],
      begin(row, before) {
        row[READY] = row[LOWEST] = before[READY] ?? 0;
        row[WARMING] = before[WARMING] ?? 0;
      },
    });
  }

  function depthOf(pool: string): Depth {
    const { store } = cache().pods;
    const sizeOf = (status: string): number => store.by("pool", poolIndex({ pool, status })).size;
    return { ready: sizeOf("ready"), warming: sizeOf("warming") };
  }

  /** @param before the depth until now, of a pool that is new here */
  function rowOf(pool: string, before: () => Depth): Int32Array {
    const buckets = pools.get(pool) ?? bucketsOf(before());
    pools.delete(pool);
    pools.set(pool, buckets);
    const [oldest] = pools.keys();
    if (pools.size > MAX_POOLS && oldest !== undefined) {
      pools.delete(oldest);
      silentSince = now();
    }
    return buckets.current();
  }

  function count(pool: string, column: number, before: () => Depth): void {
    const row = rowOf(pool, before);
    row[column] = (row[column] ?? 0) + 1;
  }

  return {
    onPod({ type, object, previous }) {
      const [was, is] = [previous && poolPlace(previous), type === "deleted" ? undefined : poolPlace(object)];
      if (was?.pool === is?.pool && was?.status === is?.status) return;
      for (const pool of new Set([was?.pool, is?.pool])) {
        if (pool === undefined) continue;
        const depth = depthOf(pool);
        const change = (status: string): number =>
          Number(is?.pool === pool && is.status === status) - Number(was?.pool === pool && was.status === status);
        const before = (): Depth => ({
          ready: depth.ready - change("ready"),
          warming: depth.warming - change("warming"),
        });
        const row = rowOf(pool, before);
        row[READY] = depth.ready;
        row[LOWEST] = Math.min(row[LOWEST] ?? 0, depth.ready);
        row[WARMING] = depth.warming;
        if (change("ready") > 0) count(pool, REFILLED, before);
        if (was?.pool === pool && type !== "deleted" && isClaimed(object)) count(pool, HITS, before);
      }
    },
    onClaim({ type, object, previous }) {
      const { phase, source, claimedAt } = object.status ?? {};
      if (type === "deleted" || phase !== "Active" || source === undefined || !source.startsWith("cold")) return;
      if (previous?.status?.phase === "Active" && previous.status.claimedAt === claimedAt) return;
      for (const { metadata } of cache().pools?.store.by("workload", object.spec.workloadRef) ?? [])
        count(metadata.name, MISSES, () => depthOf(metadata.name));
    },
    read(pool) {
      const { from, rows } = (pools.get(pool) ?? bucketsOf(depthOf(pool))).read();
      const column = (index: number) => rows.map((row) => row[index] ?? 0);
      return {
        from,
        ready: column(READY),
        lowest: column(LOWEST),
        warming: column(WARMING),
        refilled: column(REFILLED),
        hits: column(HITS),
        misses: column(MISSES),
      };
    },
  };
}
