import { type ScalingSpec, scalingOf } from "../../../crds/pool.ts";
import { createArrivals } from "../../../operator/pool/arrivals.ts";
import { decideSize, type SizeMemory } from "../../../operator/pool/decide-size.ts";

/** A shape of load: the claims of each second. */
export interface Load {
  readonly name: string;
  /** Claims by second. */
  readonly claims: readonly number[];
}

/** What a load cost. */
export interface Outcome {
  /** Claims that found no warm pod. */
  readonly misses: number;
  /** Minutes in which warm pods were there, ready or starting, added up. */
  readonly podMinutes: number;
}

const DAY_SECONDS = 86_400;
/** Of a small image that the node has. */
const REFILL_SECONDS = 8;
/** As a pool's default. */
const FILL_CONCURRENCY = 5;
/** The operator decides on each claim, and otherwise once a minute. */
const IDLE_SECONDS = 60;

const spec: ScalingSpec = scalingOf({ spec: { workloadRef: "w", maxSize: 200 } }) as ScalingSpec;

/**
 * Three loads of a day each, the same in every run.
 *
 * - Office day: from almost nothing at night to two peaks, in the morning and after lunch, with claims at random.
 * - Bursts: once in about ten minutes, day and night, 20 to 40 claims within ten seconds, and hardly any between them.
 * - Flood: one claim in two minutes, and for forty minutes of the day one in two seconds.
 */
export function recordedLoads(): Load[] {
  return [
    load("office day", 1, (second) => {
      const hour = second / 3600;
      const peak = (at: number, width: number) => Math.exp(-(((hour - at) / width) ** 2));
      return (0.05 + 8 * peak(10, 1.5) + 7 * peak(14.5, 2)) / 60;
    }),
    bursts(2),
    load("flood", 3, (second) => (second >= 36_000 && second < 38_400 ? 0.5 : 1 / 120)),
  ];
}

function load(name: string, seed: number, rateAt: (second: number) => number): Load {
  const random = randomOf(seed);
  return { name, claims: Array.from({ length: DAY_SECONDS }, (_, second) => poisson(rateAt(second), random)) };
}

function bursts(seed: number): Load {
  const random = randomOf(seed);
  const claims = Array.from({ length: DAY_SECONDS }, () => poisson(0.2 / 60, random));
  for (let at = 300; at < DAY_SECONDS - 10; at += Math.round(500 + 200 * random())) {
    const size = Math.round(20 + 20 * random());
    for (let nth = 0; nth < size; nth += 1) {
      const second = at + Math.floor(10 * random());
      claims[second] = (claims[second] ?? 0) + 1;
    }
  }
  return { name: "bursts", claims };
}

function poisson(mean: number, random: () => number): number {
  let count = 0;
  for (let left = random(); left > Math.exp(-mean); left *= random()) count += 1;
  return count;
}

/** Mulberry32. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Plays a load against a pool. @param sizeAt called each second, after its claims */
function play({ claims }: Load, sizeAt: (state: PoolState & { second: number }) => number): Outcome {
  /** By pod that starts: when it is ready. */
  let starting: number[] = [];
  let [ready, misses, podSeconds] = [0, 0, 0];
  let size = sizeAt({ ready, starting: 0, claims: 0, missed: 0, second: 0 });
  ready = size;
  for (const [second, count] of claims.entries()) {
    ready += starting.filter((readyAt) => readyAt <= second).length;
    starting = starting.filter((readyAt) => readyAt > second);
    const missed = Math.max(0, count - ready);
    ready = Math.max(0, ready - count);
    misses += missed;
    size = sizeAt({ ready, starting: starting.length, claims: count, missed, second });
    const surplus = Math.max(0, ready + starting.length - size);
    starting.splice(Math.max(0, starting.length - surplus));
    ready = Math.min(ready, size);
    const started = Math.min(size - ready - starting.length, FILL_CONCURRENCY - starting.length);
    for (let nth = 0; nth < started; nth += 1) starting.push(second + REFILL_SECONDS);
    podSeconds += ready + starting.length;
  }
  return { misses, podMinutes: Math.round(podSeconds / 60) };
}

interface PoolState {
  readonly ready: number;
  readonly starting: number;
  /** In this second. */
  readonly claims: number;
  readonly missed: number;
}

export function playFixed(load: Load, size: number): Outcome {
  return play(load, () => size);
}

/** Plays a load against a pool that scales by itself, with the defaults. */
export function playScaling(load: Load): Outcome & { readonly largest: number } {
  let now = 0;
  const arrivals = createArrivals({ now: () => now, after: () => () => undefined });
  let memory: SizeMemory = { size: spec.minSize, highest: spec.minSize, belowSince: undefined };
  let [largest, size, decidedAt] = [0, spec.minSize, Number.NEGATIVE_INFINITY];
  const outcome = play(load, ({ ready, starting, claims, missed, second }) => {
    now = second * 1000;
    for (let nth = 0; nth < claims; nth += 1) arrivals.arrived("w", 0);
    if (claims === 0 && second - decidedAt < IDLE_SECONDS) return size;
    decidedAt = second;
    const decision = decideSize({
      ...{ spec, floor: { minSize: spec.minSize, isScheduled: false }, arrivals: arrivals.read("w") },
      ...{
        refillSeconds: REFILL_SECONDS,
        present: ready + starting,
        promised: 0,
        claimed: 0,
        pools: { fixedPods: 0, scaling: 1 },
      },
      ...{ misses: missed, room: Number.POSITIVE_INFINITY, memory, now },
    });
    memory = decision.memory;
    largest = Math.max(largest, decision.size);
    size = decision.size;
    return size;
  });
  return { ...outcome, largest };
}

/** The fixed size that costs least of those with at most so many misses, found afterwards. */
export function bestFixed(load: Load, misses: number): Outcome & { readonly size: number } {
  // Misses fall with the size, and the cost rises: the smallest size is the cheapest.
  for (let size = 0; size <= spec.maxSize; size += 1) {
    const outcome = playFixed(load, size);
    if (outcome.misses <= misses) return { ...outcome, size };
  }
  throw new Error(`no fixed size up to ${spec.maxSize} has at most ${misses} misses`);
}
