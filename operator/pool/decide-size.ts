import type { PoolScaling, PoolTarget, ScalingSpec } from "../../crds/pool.ts";
import { HOUR_SECONDS, STEP_SECONDS } from "./arrivals.ts";

/** For a pool that has not started a pod yet. */
const UNKNOWN_REFILL_SECONDS = 10;
/** The rate of so many steps counts as well as the hour's: a rise shows there first. */
const RECENT_STEPS = 300 / STEP_SECONDS;
/** A Poisson distribution has no largest value. */
const SUREST = 0.999;

/** What a pool that scales by itself remembers from one decision to the next. */
export interface SizeMemory {
  /** The size without the quota's limit. */
  readonly size: number;
  /** The most pods that were needed since `belowSince`. */
  readonly highest: number;
  /** Since when fewer pods are needed than `size`, in milliseconds; undefined if as many are. */
  readonly belowSince: number | undefined;
}

export interface SizeQuestion {
  readonly spec: ScalingSpec;
  /** Fewest pods now, and whether the schedule asks for them. */
  readonly floor: { readonly minSize: number; readonly isScheduled: boolean };
  /** Claims of each {@link STEP_SECONDS} of the last hour, the oldest first; undefined without any. */
  readonly arrivals: Uint16Array | undefined;
  /** From a pod's creation to its readiness; undefined before the first one. */
  readonly refillSeconds: number | undefined;
  /** Pods that are ready or starting. */
  readonly present: number;
  /** How many of these a waiting claim takes as soon as they are ready. */
  readonly promised: number;
  /** Claims of the workload that have a pod, or wait for one. */
  readonly claimed: number;
  /** All pools of the workload: pods of those with a fixed size, and the number of those that scale by themselves. */
  readonly pools: { readonly fixedPods: number; readonly scaling: number };
  /** Claims that found no warm pod since the last decision. */
  readonly misses: number;
  /** How many more pods the namespace's quotas allow. */
  readonly room: number;
  readonly memory: SizeMemory;
  readonly now: number;
}

export const scalingReasons = [
  "Arrivals",
  "IdlePercent",
  "Misses",
  "MinSize",
  "Schedule",
  "MaxSize",
  "QuotaRoom",
  "ScaleDownLater",
] as const;
type ScalingReason = (typeof scalingReasons)[number];

export interface SizeDecision {
  readonly size: number;
  readonly scaling: PoolScaling & { readonly reason: ScalingReason };
  readonly memory: SizeMemory;
  /** When to decide again without an event, in milliseconds from now; undefined if the size cannot shrink. */
  readonly againAfterMs: number | undefined;
}

/**
 * Decides the size of a pool that scales by itself, between its minSize and its maxSize.
 *
 * - A claim finds a warm pod if fewer claims than the size came within the time of a refill before it. By Little's law
 *   these are, on average, the claims a second times that time; their number is taken as Poisson distributed.
 * - Claims also come in bursts. The last hour's claims are replayed: the size is at least so large that the target
 *   would have held in that hour.
 * - A miss raises the size at once if the pods that are starting are not enough for it.
 * - The size falls to the most pods that were needed in the last `scaleDownAfterSeconds`, and not before these are
 *   over.
 */
export function decideSize(question: SizeQuestion): SizeDecision {
  const { spec, floor, present, promised, misses, room, memory, now } = question;
  const needed = neededBy(question);
  const raised = misses > 0 ? present - promised + misses : 0;
  const wanted = Math.max(needed, raised, floor.minSize);
  const allowed = Math.min(wanted, spec.maxSize);
  const next = held(allowed, { memory, spec, now });
  const limit = present + Math.max(0, room);
  const size = Math.min(next.size, limit);
  const reason = reasonFor(question, { needed, raised, allowed, held: next.size, size });
  const claims = question.arrivals === undefined ? 0 : sumOf(question.arrivals);
  const arrivalsPerMinute = rounded((claims * 60) / HOUR_SECONDS);
  return {
    size,
    scaling: {
      ...{ reason, message: wordsFor(reason, { ...question, arrivalsPerMinute, needed: wanted, limit }) },
      ...{ needed, minSize: floor.minSize, arrivalsPerMinute },
      ...(question.refillSeconds !== undefined && { refillSeconds: rounded(question.refillSeconds) }),
    },
    memory: next,
    againAfterMs: next.size > floor.minSize || size < next.size ? pauseMs(next, spec, now) : undefined,
  };
}

/** The pods that the target needs of this pool: of what fixed pools do not have, an equal part. */
function neededBy(question: SizeQuestion): number {
  const { fixedPods, scaling } = question.pools;
  return Math.max(0, Math.ceil((neededByAll(question) - fixedPods) / scaling));
}

function neededByAll(question: SizeQuestion): number {
  const { target } = question.spec;
  const { idlePercent, hitRate = 99, p99Ms = 0 } = target;
  if (idlePercent !== undefined) {
    return (question.claimed * idlePercent) / (100 - idlePercent);
  }
  const { arrivals, refillSeconds = UNKNOWN_REFILL_SECONDS } = question;
  // A claim that may wait needs only a pod whose start began that much earlier.
  const seconds = refillSeconds - p99Ms / 1000;
  if (arrivals === undefined || seconds <= 0) return 0;
  const quantile = Math.min(SUREST, hitRate / 100);
  // Without the claim that is to find a pod: a single one is no rate.
  const others = (counts: Uint16Array): number => Math.max(0, sumOf(counts) - 1);
  const recent = others(arrivals.subarray(-RECENT_STEPS)) / (RECENT_STEPS * STEP_SECONDS);
  const rate = Math.max(others(arrivals) / HOUR_SECONDS, recent);
  const steady = rate === 0 ? 0 : poissonQuantile(rate * seconds, quantile) + 1;
  const burst = replayed(arrivals, { seconds, missed: 1 - hitRate / 100 });
  return Math.max(steady, burst);
}

function sumOf(counts: Uint16Array): number {
  let sum = 0;
  for (let step = 0; step < counts.length; step += 1) sum += counts[step] ?? 0;
  return sum;
}

/** The smallest number that a Poisson distributed one exceeds with a probability of at most `1 - quantile`. */
function poissonQuantile(mean: number, quantile: number): number {
  // Its terms are too small for a number, and the normal distribution is close.
  if (mean > 500) return Math.ceil(mean + Math.sqrt(mean) * 3.1);
  let term = Math.exp(-mean);
  let below = term;
  let value = 0;
  while (below < quantile && term > 0) {
    value += 1;
    term *= mean / value;
    below += term;
  }
  return value;
}

/**
 * The smallest size with which at most the share `missed` of the claims had found no warm pod. The claims of a step
 * count as made at once.
 */
function replayed(arrivals: Uint16Array, { seconds, missed }: { seconds: number; missed: number }): number {
  const before = seconds / STEP_SECONDS;
  let [claims, largest] = [0, 0];
  const taken = new Uint32Array(arrivals.length);
  for (let step = 0; step < arrivals.length; step += 1) {
    const count = arrivals[step] ?? 0;
    if (count === 0) continue;
    const earlier = Math.floor(takenBefore(arrivals, step, before));
    taken[step] = earlier;
    claims += count;
    largest = Math.max(largest, earlier + count);
  }
  // A step's claims need the sizes from `taken + 1` to `taken + count`: how many more need a size than the next larger.
  const changes = new Int32Array(largest + 1);
  for (let step = 0; step < arrivals.length; step += 1) {
    const [earlier = 0, count = 0] = [taken[step], arrivals[step]];
    if (count === 0) continue;
    changes[earlier + count] = (changes[earlier + count] ?? 0) + 1;
    changes[earlier] = (changes[earlier] ?? 0) - 1;
  }
  let [needing, misses] = [0, 0];
  for (let size = largest; size > 0; size -= 1) {
    needing += changes[size] ?? 0;
    misses += needing;
    if (misses > missed * claims + 1e-9) return size;
  }
  return 0;
}

/** Claims of the steps before one, of which the oldest counts in part. */
function takenBefore(arrivals: Uint16Array, step: number, steps: number): number {
  let taken = 0;
  const furthest = Math.min(step, Math.ceil(steps));
  for (let back = 1; back <= furthest; back += 1) {
    taken += (arrivals[step - back] ?? 0) * Math.min(1, steps - back + 1);
  }
  return taken;
}

function held(wanted: number, { memory, spec, now }: Pick<SizeQuestion, "memory" | "spec" | "now">): SizeMemory {
  const { size, belowSince = now } = memory;
  if (wanted >= size) return { size: wanted, highest: wanted, belowSince: undefined };
  const highest = memory.belowSince === undefined ? wanted : Math.max(memory.highest, wanted);
  const isOver = now - belowSince >= spec.scaleDownAfterSeconds * 1000;
  // What is above a smaller maxSize goes at once: a person asked for it.
  if (!isOver) return { size: Math.min(size, spec.maxSize), highest, belowSince };
  return { size: highest, highest: wanted, belowSince: highest > wanted ? now : undefined };
}

/** The claims of an hour leave one after the other, so a look a minute is enough. */
function pauseMs({ belowSince }: SizeMemory, { scaleDownAfterSeconds }: ScalingSpec, now: number): number {
  const overAfterMs = (belowSince ?? now) + scaleDownAfterSeconds * 1000 - now;
  return Math.max(1000, Math.min(60_000, overAfterMs));
}

function reasonFor(
  { spec, floor, memory }: SizeQuestion,
  of: { needed: number; raised: number; allowed: number; held: number; size: number },
): ScalingReason {
  if (of.size < of.held) return "QuotaRoom";
  if (of.held > of.allowed && memory.size > of.allowed) return "ScaleDownLater";
  if (Math.max(of.needed, of.raised) > spec.maxSize) return "MaxSize";
  if (Math.max(of.needed, of.raised) <= floor.minSize) return floor.isScheduled ? "Schedule" : "MinSize";
  if (of.raised > of.needed) return "Misses";
  return spec.target.idlePercent === undefined ? "Arrivals" : "IdlePercent";
}

function wordsFor(
  reason: ScalingReason,
  of: SizeQuestion & { arrivalsPerMinute: number; needed: number; limit: number },
): string {
  const { spec, claimed, misses, arrivalsPerMinute, needed, limit, refillSeconds = UNKNOWN_REFILL_SECONDS } = of;
  const pods = (count: number): string => (count === 1 ? "1 warm pod" : `${count} warm pods`);
  const demand = `${arrivalsPerMinute} claims a minute in the last hour, and ${rounded(refillSeconds)} s until a pod is ready`;
  switch (reason) {
    case "Arrivals":
      return `${demand}: ${pods(needed)} for ${targetWords(spec.target)}`;
    case "IdlePercent":
      return `${claimed} claimed pods: ${pods(needed)} for ${targetWords(spec.target)}`;
    case "Misses":
      return `${misses === 1 ? "1 claim" : `${misses} claims`} found no warm pod: ${pods(needed)} from now on`;
    case "MinSize":
      return `claims need no more than spec.minSize (${demand})`;
    case "Schedule":
      return `spec.schedule asks for it, claims need no more (${demand})`;
    case "MaxSize":
      return `claims need ${pods(needed)} (${demand}): raise spec.maxSize, or ask for less with spec.target`;
    case "QuotaRoom":
      return `the namespace's quotas have room for ${pods(limit)} in this pool: raise them, or release instances`;
    case "ScaleDownLater":
      return `only ${pods(needed)} are needed now: it shrinks after ${spec.scaleDownAfterSeconds} s in which no more are needed (spec.scaleDownAfterSeconds)`;
    default:
      return reason satisfies never;
  }
}

function targetWords({ idlePercent, hitRate = 99, p99Ms }: PoolTarget): string {
  if (idlePercent !== undefined) return `${idlePercent} % of all pods idle`;
  return p99Ms === undefined ? `a hit rate of ${hitRate} %` : `99 % of claims within ${p99Ms} ms`;
}

function rounded(value: number): number {
  return Math.round(value * 10) / 10;
}
