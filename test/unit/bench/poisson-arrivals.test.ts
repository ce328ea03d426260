import { test } from "uvu";
import * as assert from "uvu/assert";
import { poissonArrivals, seededRandom } from "../../../scripts/bench/load/open-loop.ts";

const plan = (seed: number, perSecond = 45, seconds = 60) =>
  poissonArrivals({ perSecond, seconds, random: seededRandom(seed) });

test("poissonArrivals: the same seed gives the same plan, another seed another one", () => {
  assert.equal(plan(1), plan(1));
  assert.not.equal(plan(1), plan(2));
});

test("poissonArrivals: ascending, and within the time", () => {
  const arrivals = plan(1);
  assert.ok(arrivals.every((at, index) => at > (arrivals[index - 1] ?? 0)));
  assert.ok((arrivals.at(-1) ?? 0) < 60_000);
});

test("poissonArrivals: the gaps are as many, as long and as uneven as an exponential distribution has them", () => {
  const arrivals = plan(7, 100, 1000);
  const gaps = arrivals.map((at, index) => at - (arrivals[index - 1] ?? 0));
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
  const deviation = Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length);
  // 100 000 arrivals: the count is off by 316 once in three times, so 2 % is more than six times that.
  assert.ok(Math.abs(arrivals.length / 100_000 - 1) < 0.02, String(arrivals.length));
  assert.ok(Math.abs(mean / 10 - 1) < 0.02, String(mean));
  assert.ok(Math.abs(deviation / mean - 1) < 0.02, String(deviation));
  const longerThanMean = gaps.filter((gap) => gap > 10).length / gaps.length;
  assert.ok(Math.abs(longerThanMean - 1 / Math.E) < 0.01, String(longerThanMean));
});

test("poissonArrivals: a random number of 0 is a gap of 0, and none is infinite", () => {
  const arrivals = poissonArrivals({ perSecond: 1, seconds: 1, random: sequence([0, 0, 0.9999999]) });
  assert.equal(arrivals, [0, 0]);
});

test("poissonArrivals: a rate that would never end is refused", () => {
  assert.throws(() => plan(1, 0), /rate of 0/);
});

test("seededRandom: stays from 0 to below 1 and is spread evenly", () => {
  const random = seededRandom(3);
  const tenths = new Array<number>(10).fill(0);
  for (let count = 0; count < 100_000; count++) {
    const tenth = Math.floor(random() * 10);
    tenths[tenth] = (tenths[tenth] ?? Number.NaN) + 1;
  }
  assert.is(tenths.length, 10);
  for (const count of tenths) assert.ok(Math.abs(count - 10_000) < 500, String(tenths));
});

function sequence(numbers: number[]): () => number {
  return () => numbers.shift() ?? 0.5;
}

test.run();
