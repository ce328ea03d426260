import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type PoolSpec, scalingOf } from "../../../crds/pool.ts";
import { decideSize, type SizeDecision, type SizeQuestion } from "../../../operator/pool/decide-size.ts";

const test = suite("decideSize");

const STEPS = 720;
const SECOND = 1000;

function specOf(spec: Partial<PoolSpec> = {}): SizeQuestion["spec"] {
  const scaling = scalingOf({ spec: { workloadRef: "w", maxSize: 100, ...spec } });
  if (scaling === undefined) throw new Error("it has a fixed size");
  return scaling;
}

/** Claims by the number of steps ago. */
function claims(byStep: Record<number, number>): Uint16Array {
  const counts = new Uint16Array(STEPS);
  for (const [ago, count] of Object.entries(byStep)) counts[STEPS - 1 - Number(ago)] = count;
  return counts;
}

function everySteps(steps: number, count = 1): Uint16Array {
  return new Uint16Array(STEPS).map((_, step) => (step % steps === 0 ? count : 0));
}

function decide(given: Partial<SizeQuestion> & { size?: number } = {}): SizeDecision {
  const { size = 0, ...question } = given;
  const { minSize } = question.spec ?? specOf();
  return decideSize({
    ...{ spec: specOf(), floor: { minSize, isScheduled: false }, arrivals: undefined, refillSeconds: 10 },
    ...{
      present: size,
      promised: 0,
      claimed: 0,
      pools: { fixedPods: 0, scaling: 1 },
      misses: 0,
      room: Number.POSITIVE_INFINITY,
    },
    ...{ memory: { size, highest: size, belowSince: undefined }, now: 0 },
    ...question,
  });
}

const said = ({ size, scaling }: SizeDecision) => `${size} ${scaling.reason}`;

test("without claims it is minSize, and no timer is needed", () => {
  const decision = decide({ size: 1 });
  assert.is(said(decision), "1 MinSize");
  assert.is(decision.againAfterMs, undefined);
  assert.is(said(decide({ spec: specOf({ minSize: 0 }) })), "0 MinSize");
});

test("a steady stream needs the claims of one refill, and more for chance", () => {
  // One claim a second.
  const stream = everySteps(1, 5);
  const needed = (refillSeconds: number) => decide({ arrivals: stream, refillSeconds }).scaling.needed;
  assert.equal([1, 10, 60].map(needed), [5, 19, 80]);
  const atHitRate = (hitRate: number) => decide({ arrivals: stream, spec: specOf({ target: { hitRate } }) }).size;
  const sizes = [50, 80, 95, 99, 100].map(atHitRate);
  assert.equal(
    sizes,
    [...sizes].sort((a, b) => a - b),
  );
  assert.ok((sizes[0] ?? 0) >= 10, "as many as come in a refill on average");
});

test("a burst of the last hour is expected again, and one before it is not", () => {
  assert.is(said(decide({ arrivals: claims({ 600: 30 }) })), "30 Arrivals");
  assert.is(said(decide({ arrivals: claims({}) })), "1 MinSize");
});

test("the allowed misses may be those of the largest burst", () => {
  const arrivals = claims({ 100: 30, 200: 20, 300: 20, 400: 20, 500: 10 });
  assert.is(decide({ arrivals, spec: specOf({ target: { hitRate: 90 } }) }).size, 20);
  assert.is(decide({ arrivals, spec: specOf({ target: { hitRate: 100 } }) }).size, 30);
});

test("a rise counts before it has lasted an hour", () => {
  const rise = claims(Object.fromEntries(Array.from({ length: 60 }, (_, ago) => [ago, 5])));
  assert.is(decide({ arrivals: rise }).size, decide({ arrivals: everySteps(1, 5) }).size);
});

test("p99Ms: claims that may wait need fewer pods, and none if a start is fast enough", () => {
  const waiting = (p99Ms: number) =>
    decide({ arrivals: everySteps(1, 5), spec: specOf({ target: { p99Ms }, minSize: 0 }) }).size;
  const hitRate99 = decide({ arrivals: everySteps(1, 5) }).size;
  assert.is(waiting(1), hitRate99);
  assert.ok(waiting(5000) < hitRate99);
  assert.is(waiting(10_000), 0);
});

test("idlePercent: of all pods, claimed ones included", () => {
  const idle = (claimed: number) => decide({ claimed, spec: specOf({ target: { idlePercent: 20 } }) });
  assert.is(said(idle(40)), "10 IdlePercent");
  assert.is(said(idle(41)), "11 IdlePercent");
  assert.is(said(idle(0)), "1 MinSize");
});

test("a miss raises it at once, beyond the pods that are starting", () => {
  const spec = specOf({ target: { idlePercent: 10 } });
  assert.is(said(decide({ spec, size: 5, present: 3, misses: 4 })), "7 Misses");
  assert.is(decide({ spec, size: 5, present: 1, misses: 2 }).size, 5, "those that are starting are enough");
  assert.is(decide({ spec, size: 5, present: 3, promised: 3, misses: 6 }).size, 6, "the misses wait for these");
});

test("maxSize is a limit, and is said", () => {
  const decision = decide({ arrivals: claims({ 3: 30 }), spec: specOf({ maxSize: 12 }) });
  assert.is(said(decision), "12 MaxSize");
  assert.is(decision.scaling.needed, 30);
  assert.match(decision.scaling.message, /claims need 30 warm pods .*: raise spec\.maxSize/);
  assert.is(decide({ size: 40, arrivals: claims({ 3: 30 }), spec: specOf({ maxSize: 12 }) }).size, 12, "at once");
});

test("a quota is a limit that deletes nothing, and the size is back when there is room", () => {
  const arrivals = claims({ 3: 30 });
  const limited = decide({ size: 10, arrivals, room: 2 });
  assert.is(said(limited), "12 QuotaRoom");
  assert.ok(limited.againAfterMs !== undefined);
  assert.is(decide({ size: 10, arrivals, room: 0 }).size, 10);
  assert.is(decide({ ...limited, arrivals, present: 12, room: 50 }).size, 30);
});

test("more pools of a workload share what fixed ones do not have", () => {
  const arrivals = claims({ 100: 30 });
  assert.is(decide({ arrivals, pools: { fixedPods: 0, scaling: 2 } }).size, 15);
  assert.is(decide({ arrivals, pools: { fixedPods: 10, scaling: 1 } }).size, 20);
  assert.is(said(decide({ arrivals, pools: { fixedPods: 40, scaling: 1 } })), "1 MinSize");
});

test("it shrinks to the most that was needed for scaleDownAfterSeconds, and not before", () => {
  const spec = specOf({ scaleDownAfterSeconds: 100 });
  let { memory } = decide({ size: 20 });
  const at = (seconds: number, needed: number): string => {
    const decision = decide({ spec, memory, arrivals: claims({ 300: needed }), now: seconds * SECOND });
    memory = decision.memory;
    return said(decision);
  };
  assert.is(at(0, 20), "20 Arrivals");
  assert.is(at(10, 5), "20 ScaleDownLater");
  assert.is(at(60, 8), "20 ScaleDownLater");
  assert.is(at(109, 5), "20 ScaleDownLater");
  assert.is(at(110, 5), "8 ScaleDownLater");
  assert.is(at(210, 5), "5 Arrivals");
  assert.is(at(220, 4), "5 ScaleDownLater");
  assert.is(at(300, 5), "5 Arrivals");
  assert.is(at(390, 4), "5 ScaleDownLater", "the time begins again");
});

test("it asks to be called when it may shrink, at most once a minute", () => {
  const spec = specOf({ scaleDownAfterSeconds: 100 });
  const { memory, againAfterMs } = decide({ spec, size: 20 });
  assert.is(againAfterMs, 60_000);
  assert.is(decide({ spec, memory, now: 60_000 }).againAfterMs, 40_000);
});

test("a schedule is the reason while it asks for more than the claims", () => {
  const floor = { minSize: 8, isScheduled: true };
  assert.is(said(decide({ floor })), "8 Schedule");
  assert.is(said(decide({ floor, arrivals: claims({ 9: 9 }) })), "9 Arrivals");
});

test("many claims: large rates have a size too", () => {
  const decision = decide({ arrivals: everySteps(1, 1000), spec: specOf({ maxSize: 10_000 }), refillSeconds: 30 });
  assert.ok(decision.size > 6000 && decision.size < 8000, said(decision));
});

test.run();
