import { test } from "uvu";
import * as assert from "uvu/assert";
import { failedRow, summarise } from "../../../scripts/bench/report/summarise.ts";
import { renderTable } from "../../../scripts/bench/report/table.ts";

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

test.run();
