import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import { desiredSize, type Pool, type PoolScaling, scalingOf } from "../../crds/pool.ts";
import { roomForPods } from "../room/quota-room.ts";
import { type Arrivals, createArrivals } from "./arrivals.ts";
import type { PoolContext } from "./context.ts";
import { decideSize, type SizeMemory } from "./decide-size.ts";
import { type Floor, floorAt } from "./pool-schedule.ts";

/** Claims that found a warm pod change a size so often at most: a decision takes longer than a claim may. */
const DECIDE_EVERY_MS = 1000;
/** The weight of a new measurement. */
const NEWEST_WEIGHT = 0.2;

/** What is known of a pool that scales by itself. */
interface SizedPool {
  memory: SizeMemory;
  refillSeconds: number | undefined;
  /** Misses of its workload that it has answered. */
  missesSeen: number;
  floor: (Floor & { readonly generation: number }) | undefined;
  decided: { readonly size: number; readonly scaling: PoolScaling; readonly at: number } | undefined;
}

/** The sizes of the pools that scale by themselves, for as long as this process leads. */
export interface PoolSizes {
  readonly arrivals: Arrivals;
  /** In milliseconds, only for durations. */
  now(): number;
  /** The number of pods that a pool aims for, and why; no reason for a fixed size, and before the first decision. */
  get(pool: Pool): { readonly size: number; readonly scaling?: PoolScaling };
  /** What is known of a pool; a new leader begins with what the pool's status says. */
  known(pool: Pool): SizedPool;
  /** A pod of the pool became ready so long after its creation. */
  refilled(pool: string, seconds: number): void;
  /** Its size, or the reason for it, is another, or a claim found no warm pod in it. */
  changed(pool: string): void;
  /** A quota has more room: the pools that it limits decide again. */
  roomMade(): void;
  /** The pool is gone, or of a fixed size. */
  forget(pool: string): void;
}

/** @param options.onChange called for a pool that has to decide again */
export function createPoolSizes({
  onChange,
  clock = steadyClock,
}: {
  onChange: (pool: string) => void;
  clock?: Clock;
}): PoolSizes {
  const pools = new Map<string, SizedPool>();
  const arrivals = createArrivals(clock);
  return {
    ...{ arrivals, now: clock.now, changed: onChange },
    get(pool) {
      const { size, scaling } = pools.get(pool.metadata.name)?.decided ?? {};
      if (size === undefined || scaling === undefined || pool.spec.size !== undefined)
        return { size: desiredSize(pool) };
      return { size, scaling };
    },
    known(pool) {
      const { name } = pool.metadata;
      const size = desiredSize(pool);
      const known = pools.get(name) ?? {
        memory: { size, highest: 0, belowSince: clock.now() },
        refillSeconds: pool.status?.scaling?.refillSeconds,
        missesSeen: arrivals.missesOf(pool.spec.workloadRef),
        ...{ floor: undefined, decided: undefined },
      };
      pools.set(name, known);
      return known;
    },
    refilled(pool, seconds) {
      const known = pools.get(pool);
      if (known === undefined) return;
      const { refillSeconds = seconds } = known;
      known.refillSeconds = refillSeconds + NEWEST_WEIGHT * (seconds - refillSeconds);
    },
    roomMade() {
      for (const [pool, { decided }] of pools) if (decided?.scaling.reason === "QuotaRoom") onChange(pool);
    },
    forget: (pool) => void pools.delete(pool),
  };
}

/**
 * Decides how many pods a pool aims for now.
 *
 * @returns for a pool that scales by itself also when to decide again without an event
 */
export function decidePoolSize(pool: Pool, context: PoolContext): { size: number; againAfterMs?: number | undefined } {
  const { poolSizes, promisedPods, informers } = context;
  const { name, generation = 0 } = pool.metadata;
  const { workloadRef } = pool.spec;
  const spec = scalingOf(pool);
  if (spec === undefined) {
    poolSizes.forget(name);
    return { size: pool.spec.size ?? 0 };
  }
  const known = poolSizes.known(pool);
  const serverNow = context.serverNow();
  const now = poolSizes.now();
  const allMisses = poolSizes.arrivals.missesOf(workloadRef);
  const hasMissed = allMisses > known.missesSeen;
  const isFloorOld = known.floor?.generation !== generation || serverNow >= known.floor.until;
  const former = known.decided;
  if (former !== undefined && !hasMissed && !isFloorOld && now - former.at < DECIDE_EVERY_MS)
    return { size: former.size, againAfterMs: former.at + DECIDE_EVERY_MS - now };
  const floor = isFloorOld || known.floor === undefined ? { ...floorAt(serverNow, spec), generation } : known.floor;

  const { store } = informers.pods;
  const [ready, warming] = [store.by("pool", `${name}/ready`), store.by("pool", `${name}/warming`)];
  const ofWorkload = [...informers.pools.store.by("workload", workloadRef)];
  const scalingPools = ofWorkload.filter((other) => scalingOf(other) !== undefined).length || 1;
  const [[oldest], [starting]] = [ready, warming];
  const decision = decideSize({
    ...{ spec, floor, memory: known.memory, now },
    arrivals: poolSizes.arrivals.read(workloadRef),
    refillSeconds: known.refillSeconds,
    present: ready.size + warming.size,
    promised: [...warming].filter(({ metadata }) => promisedPods.claimOf(metadata.uid ?? "") !== undefined).length,
    claimed: informers.claims.store.by("using", workloadRef).size,
    pools: { fixedPods: ofWorkload.reduce((sum, other) => sum + (other.spec.size ?? 0), 0), scaling: scalingPools },
    misses: Math.ceil(Math.max(0, allMisses - known.missesSeen) / scalingPools),
    room: roomForPods(informers.resourceQuotas.store.values(), oldest ?? starting),
  });
  const scaling =
    floor.problem === undefined
      ? decision.scaling
      : { ...decision.scaling, reason: "ScheduleInvalid", message: floor.problem };
  Object.assign(known, { floor, memory: decision.memory, missesSeen: allMisses });
  known.decided = { size: decision.size, scaling, at: now };

  if (former !== undefined && hasMissed && decision.size > former.size)
    context.poolEvents.note(pool, { reason: "GrownByMiss", message: `${scaling.message}; before: ${former.size}` });
  if (scaling.reason === "MaxSize" && former?.scaling.reason !== "MaxSize")
    context.poolEvents.warn(pool, { reason: "MaxSizeReached", message: scaling.message });
  if (isNewScaling({ size: decision.size, scaling }, former)) poolSizes.changed(name);
  const untilMs = floor.until - serverNow;
  const waits = [decision.againAfterMs ?? Number.POSITIVE_INFINITY, Math.max(1, untilMs)];
  const againAfterMs = Math.min(...waits);
  return { size: decision.size, againAfterMs: Number.isFinite(againAfterMs) ? againAfterMs : undefined };
}

/** Whether a size and its reason differ enough to be written: the numbers in the message change with each claim. */
export function isNewScaling(
  now: { size: number; scaling: PoolScaling },
  written: { size: number | undefined; scaling?: PoolScaling | undefined } | undefined,
): boolean {
  const { scaling } = written ?? {};
  return (
    now.size !== written?.size || now.scaling.reason !== scaling?.reason || now.scaling.minSize !== scaling.minSize
  );
}
