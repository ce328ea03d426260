import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Measurement } from "../../../scripts/bench/report/measurement.ts";
import { failedRow, percentile, summarise } from "../../../scripts/bench/report/summarise.ts";

const never = Number.POSITIVE_INFINITY;
const of = (measurement: Partial<Measurement>): Measurement => ({
  path: "pool",
  samplesMs: [],
  missed: 0,
  failures: {},
  ...measurement,
});

test("summarise: percentiles, the floor's median, and the ratio to it", () => {
  const row = summarise(of({ samplesMs: [30, 10, 20, 40], floorMs: [5, 4, 6] }), { writes: 3, reads: 0 });
  assert.equal([row.n, row.failed, row.p50Ms, row.p99Ms, row.maxMs], [4, 0, 20, 40, 40]);
  assert.equal([row.floorP50Ms, row.ratioP50, row.writesPerClaim, row.readsPerClaim], [5, 4, 3, 0]);
});

test("summarise: failed claims count in n, make no percentile better, and stay in the samples", () => {
  const row = summarise(of({ samplesMs: [10, never, 20, never], failures: { "504 too late": 2 } }));
  assert.equal([row.n, row.failed, row.p50Ms, row.p99Ms, row.maxMs], [4, 2, 20, null, null]);
  assert.equal(row.samplesMs, [10, null, 20, null]);
  assert.equal(row.failures, { "504 too late": 2 });
});

test("summarise: where samples are a part, n and failed are those of the whole", () => {
  const row = summarise(of({ samplesMs: [1, 2], whole: { n: 1000, failed: 1 } }));
  assert.equal([row.n, row.failed, row.p50Ms], [1000, 1, 1]);
});

test("summarise: CPU time a claim and memory of every program, and all writes that the API server counted", () => {
  const server = { writes: { "POST pods": 1, "PATCH pods": 1.5 }, watchEvents: 20, watchKb: 80 };
  const measured = { samplesMs: [1, 1, 1], cpuMs: { operator: 30, etcd: 9 }, rssMb: { operator: 90.5 } };
  const row = summarise(of({ ...measured, server }));
  assert.equal(row.cpuMsPerClaim, { operator: 10, etcd: 3 });
  assert.equal(row.rssMb, { operator: 90.5 });
  assert.is(row.writesWithRefill, 2.5);
  assert.is(summarise(of(measured), { writes: 3, reads: 0 }).writesWithRefill, null);
});

test("summarise: without samples there are no figures, and JSON can hold the row", () => {
  const row = failedRow("pool", new Error("no pods"));
  assert.equal([row.n, row.p50Ms, row.ratioP50, row.error], [0, null, null, "no pods"]);
  assert.equal(JSON.parse(JSON.stringify(row)), row);
});

const hundred = Array.from({ length: 100 }, (_, index) => index + 1);

for (const [samples, share, expected] of [
  [hundred, 0.5, 50],
  [hundred, 0.95, 95],
  [hundred, 0.99, 99],
  [hundred, 1, 100],
  [[15, 20, 35, 40, 50], 0.3, 20],
  [[15, 20, 35, 40, 50], 0.4, 20],
  [[10, 20], 0.5, 10],
  [[3], 0.01, 3],
  [[1, 2, 3], 0.99, 3],
  // 0.07 * 100 is 7.000000000000001, which does not move the rank on.
  [hundred, 0.07, 7],
  [hundred, 0.56, 56],
  [[1, 2, 3, never], 0.5, 2],
  [[1, 2, 3, never], 0.99, never],
] as const) {
  test(`percentile: ${share} of ${samples.length} samples up to ${samples.at(-1)} is ${expected}, by nearest rank`, () =>
    assert.is(percentile(samples, share), expected));
}

test("percentile: throws without samples and for a share that is none", () => {
  assert.throws(() => percentile([], 0.5), /no samples/);
  for (const share of [0, -1, 1.01, Number.NaN]) assert.throws(() => percentile([1], share), /not in \(0, 1\]/);
});

test.run();
