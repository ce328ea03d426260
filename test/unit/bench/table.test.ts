import { test } from "uvu";
import * as assert from "uvu/assert";
import { failedRow, summarise } from "../../../scripts/bench/report/summarise.ts";
import { renderScale, renderTable, renderUsage } from "../../../scripts/bench/report/table.ts";

const pool = summarise(
  { path: "pool", samplesMs: [14.2, 15, 16], floorMs: [10], missed: 0, failures: {} },
  { writes: 3, reads: 0 },
);

test("renderTable: a line a path under its titles, figures to the right with three digits that count", () => {
  const existing = summarise({ path: "existing", samplesMs: [0.31415, 123.4], missed: 0, failures: {} });
  const lines = renderTable([existing, pool]).split("\n");
  assert.equal(lines, [
    "path      n  failed  missed  p50 ms   p95   p99   max  floor p50  x floor  writes  reads",
    "existing  2       0       0   0.314   123   123   123          -        -       -      -",
    "pool      3       0       0    15.0  16.0  16.0  16.0       10.0     1.50    3.00      0",
  ]);
});

test("renderTable: a percentile among failed claims reads failed, with the reasons below", () => {
  const row = summarise({
    path: "pool-rate",
    samplesMs: [10, 12, Number.POSITIVE_INFINITY],
    missed: 1,
    failures: { "504 too late": 1 },
    note: "45 a second",
  });
  const [, figures, ...remarks] = renderTable([row]).split("\n");
  assert.match(figures ?? "", /^pool-rate {2}3 +1 +1 +12\.0 +failed +failed +failed$/);
  assert.equal(remarks, ["pool-rate: 1 x 504 too late", "pool-rate: 45 a second"]);
});

test("renderTable: a path that could not be measured has its line, and says why", () => {
  const lines = renderTable([pool, failedRow("scale", new Error("no room"))]).split("\n");
  assert.match(lines[2] ?? "", /^scale +0 +0 +0 +-/);
  assert.is(lines[3], "scale: FAILED: no room");
});

test("renderTable: what the API server did under load, where it was counted", () => {
  const server = { writes: { "POST pods": 1, "PATCH pods": 5.2 }, watchEvents: 29.2, watchKb: 80.3 };
  const rate = summarise({ path: "pool-rate", samplesMs: [10], missed: 0, failures: {}, server });
  const [titles, figures] = renderTable([rate]).split("\n");
  assert.match(titles ?? "", / with refill {2}watch events {2}watch KiB$/);
  assert.match(figures ?? "", / 6\.20 +29\.2 +80\.3$/);
});

test("renderUsage: CPU time a claim of every program and of all together, and our programs' memory", () => {
  const measured = { samplesMs: [10, 20], missed: 0, failures: {} };
  const cpuMs = { operator: 7, edge: 4, "kube-apiserver": 40, bench: 5 };
  const rssMb = { operator: 182.4, edge: 103, "kube-apiserver": 600, bench: 90 };
  const rate = summarise({ path: "pool-rate", ...measured, cpuMs, rssMb });
  const paused = summarise({ path: "pool", ...measured, rssMb });
  assert.equal(renderUsage([paused, rate, pool]).split("\n"), [
    "CPU ms a claim  operator  edge  kube-apiserver  bench   all  operator MiB  edge MiB",
    "pool                   -     -               -      -     -           182       103",
    "pool-rate           3.50  2.00            20.0   2.50  28.0           182       103",
  ]);
});

test("renderScale: a column a size, a line a figure", () => {
  const standing = { pods: 1000, claims: 500, workloads: 100, pools: 50, triggers: 100 };
  const small = { standing, figures: { "MiB operator": 101.4, "idle: KiB/s to edge": null }, restartSamplesMs: [300] };
  const large = {
    standing: { ...standing, pods: 10_000 },
    figures: { "MiB operator": 140, "only at this size": 2 },
    restartSamplesMs: [1700, 1900],
  };
  assert.equal(renderScale({ sizes: [small, large] }).split("\n"), [
    "pods                  1000  10000",
    "claims                 500    500",
    "workloads              100    100",
    "pools                   50     50",
    "triggers               100    100",
    "MiB operator           101    140",
    "idle: KiB/s to edge      -      -",
    "only at this size        -   2.00",
    "operator: restart ms   300   1900",
  ]);
});

test.run();
