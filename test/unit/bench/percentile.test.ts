import { test } from "uvu";
import * as assert from "uvu/assert";
import { percentile } from "../../../scripts/bench/report/summarise.ts";

const hundred = Array.from({ length: 100 }, (_, index) => index + 1);

test("percentile: by nearest rank it is always one of the samples", () => {
  assert.is(percentile(hundred, 0.5), 50);
  assert.is(percentile(hundred, 0.95), 95);
  assert.is(percentile(hundred, 0.99), 99);
  assert.is(percentile(hundred, 1), 100);
  assert.is(percentile([15, 20, 35, 40, 50], 0.3), 20);
  assert.is(percentile([15, 20, 35, 40, 50], 0.4), 20);
  assert.is(percentile([10, 20], 0.5), 10);
});

test("percentile: a share that floating point makes a hair too large does not move the rank on", () => {
  // 0.07 * 100 is 7.000000000000001
  assert.is(percentile(hundred, 0.07), 7);
  assert.is(percentile(hundred, 0.56), 56);
});

test("percentile: of few samples the high ones are the largest", () => {
  assert.is(percentile([3], 0.99), 3);
  assert.is(percentile([3], 0.01), 3);
  assert.is(percentile([1, 2, 3], 0.99), 3);
});

test("percentile: claims that failed, as Infinity, rank behind those that were answered", () => {
  const samples = [1, 2, 3, Number.POSITIVE_INFINITY];
  assert.is(percentile(samples, 0.5), 2);
  assert.is(percentile(samples, 0.99), Number.POSITIVE_INFINITY);
});

test("percentile: throws without samples and for a share that is none", () => {
  assert.throws(() => percentile([], 0.5), /no samples/);
  for (const share of [0, -1, 1.01, Number.NaN]) assert.throws(() => percentile([1], share), /not in \(0, 1\]/);
});

test.run();
