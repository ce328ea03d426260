import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { seededRandom } from "../../../scripts/bench/load/open-loop.ts";
import type { BenchReport } from "../../../scripts/bench/report/bench-report.ts";
import { compareReports, ratioIntervals, readReport, renderComparison } from "../../../scripts/bench/report/compare.ts";
import type { Measurement } from "../../../scripts/bench/report/measurement.ts";
import { summarise } from "../../../scripts/bench/report/summarise.ts";

const machine = { cpu: "c", cores: 2, memoryGb: 8, kernel: "k", node: "20", bun: "1", loadBefore: 0.1 };
const same = {
  startedAt: "2026-01-01",
  quick: false,
  seed: 1,
  machine,
  kubernetes: "v1.34",
  scale: null,
  requests: {},
};

function report(measured: Partial<Measurement>, more: Partial<BenchReport> = {}, writes = 3): BenchReport {
  const measurement = { path: "pool", samplesMs: times(1), missed: 0, failures: {}, ...measured };
  return { commit: "abc", ...same, rows: [summarise(measurement, { writes, reads: 0 })], ...more };
}

/** 400 times from 10 to 20, each times a factor. */
function times(factor: number, seed = 7): number[] {
  const random = seededRandom(seed);
  return Array.from({ length: 400 }, () => (10 + 10 * random()) * factor);
}

const verdicts = (a: BenchReport, b: BenchReport) =>
  Object.fromEntries(compareReports(a, b).map(({ name, verdict }) => [name, verdict]));

test("compareReports: times of one distribution are within noise, times 1.3 they are not", () => {
  assert.is(verdicts(report({}), report({ samplesMs: times(1, 8) }))["p50 ms"], "within noise");
  const [p50] = compareReports(report({}), report({ samplesMs: times(1.3, 8) }));
  assert.is(p50?.verdict, "worse");
  assert.ok(Math.abs((p50?.ratio ?? 0) - 1.3) < 0.1);
  assert.is(verdicts(report({ samplesMs: times(1.3, 8) }), report({}))["p50 ms"], "better");
});

test("compareReports: single figures have a tolerance, requests a smaller one, and more a second is better", () => {
  const a = report({ cpuMs: { operator: 400, edge: 400 }, rssMb: { operator: 100, etcd: 90 }, perSecond: 60 });
  const b = report(
    { cpuMs: { operator: 412, edge: 300 }, rssMb: { operator: 110, etcd: 300 }, perSecond: 80 },
    {},
    3.1,
  );
  const found = verdicts(a, b);
  assert.is(found["CPU ms operator"], "within noise");
  assert.is(found["CPU ms edge"], "better");
  assert.is(found["CPU ms all"], "better");
  assert.is(found["MiB operator"], "worse");
  assert.is(found["MiB etcd"], undefined);
  assert.is(found["per s"], "better");
  assert.is(found.writes, "worse");
  assert.is(found.reads, "within noise");
});

test("compareReports: of two highest rates one step is noise, and times at two rates are not compared", () => {
  const ladder = (perSecond: number) => report({ path: "ladder", perSecond, steps: [] });
  assert.is(verdicts(ladder(60), ladder(65))["per s"], "within noise");
  assert.is(verdicts(ladder(60), ladder(70))["per s"], "better");
  assert.is(verdicts(ladder(60), ladder(70))["p99 ms"], undefined);
  assert.is(verdicts(ladder(60), ladder(60))["p99 ms"], "within noise");
});

test("compareReports: a percentile among failed claims is worse than any time", () => {
  const failed = report({ samplesMs: [...times(1).slice(0, 380), ...Array(20).fill(Number.POSITIVE_INFINITY)] });
  const found = verdicts(report({}), failed);
  assert.equal([found["p50 ms"], found["p99 ms"]], ["within noise", "worse"]);
  assert.is(verdicts(failed, report({}))["p99 ms"], "better");
  assert.is(verdicts(failed, failed)["p99 ms"], "within noise");
});

test("compareReports: figures of the sizes that both have, restarts by whether their ranges overlap", () => {
  const size = (pods: number, mebibytes: number, restartSamplesMs: number[]) => ({
    standing: { pods, claims: 1, workloads: 1, pools: 1, triggers: 1 },
    figures: { "MiB operator": mebibytes, "idle: KiB/s to edge": null },
    restartSamplesMs,
  });
  const a = report({}, { scale: { sizes: [size(10, 20, [200]), size(1000, 170, [2000, 3000])] } });
  const b = report({}, { scale: { sizes: [size(1000, 120, [2900, 3500])] } });
  assert.equal(
    compareReports(a, b)
      .filter(({ path }) => path.startsWith("scale"))
      .map(({ path, name, verdict }) => [path, name, verdict]),
    [
      ["scale 1000", "MiB operator", "better"],
      ["scale 1000", "operator: restart ms", "within noise"],
    ],
  );
});

test("compareReports: refuses reports of another seed, length or machine, and those with no path in common", () => {
  const a = report({});
  assert.throws(() => compareReports(a, report({}, { seed: 2 })), /the reports have seed 1 and 2/);
  assert.throws(() => compareReports(a, report({}, { quick: true })), /quick false and true/);
  assert.throws(() => compareReports(a, report({}, { machine: { ...machine, cores: 4 } })), /cores 2 and 4/);
  assert.throws(() => compareReports(a, report({ path: "refill" })), /no path in common/);
});

test("ratioIntervals: late answers that come together make a wide interval", () => {
  const spread = Array.from({ length: 400 }, (_, index) => (index % 20 === 0 ? 100 : 10));
  const together = Array.from({ length: 400 }, (_, index) => (index < 20 ? 100 : 10));
  const width = (samples: number[]) => {
    const [low = 0, high = 0] = ratioIntervals(samples, samples, [0.95])[0] ?? [];
    return high / low;
  };
  assert.ok(width(together) >= width(spread));
  assert.equal(ratioIntervals([], [1], [0.5]), [undefined]);
});

test("renderComparison: tells which rows were disturbed by other programs", () => {
  const quiet = report({ machine: { idle: 0.5, others: 0.02 } });
  assert.not.match(renderComparison(quiet, quiet), /Other programs/);
  assert.match(renderComparison(quiet, report({ machine: { idle: 0, others: 0.26 } })), /10 %.*: pool of B: 26 %$/m);
});

test("readReport: names the file and what is wrong with it", () => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-compare-"));
  try {
    const path = join(folder, "a.json");
    assert.throws(() => readReport(path), /Cannot read .*a\.json/);
    writeFileSync(path, JSON.stringify({ ...report({}), seed: "one" }));
    assert.throws(() => readReport(path), /a\.json\.seed: must be a whole number/);
    writeFileSync(path, JSON.stringify(report({})));
    assert.is(readReport(path).rows[0]?.path, "pool");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.run();
