import { test } from "uvu";
import * as assert from "uvu/assert";
import { histogramQuantile, parseMetrics } from "../../../scripts/bench/environment/usage.ts";

const metrics = parseMetrics(`# HELP requests_total Requests
# TYPE requests_total counter
requests_total{verb="get",path="/a\\"b}"} 3
requests_total{verb="list",path=""} 4.5
process_cpu_seconds_total 1.25 1700000000000
seconds_bucket{le="+Inf",lane="claim"} 7
big 1e+06
`);

test("parseMetrics: sums series of a name, all or those with the labels", () => {
  assert.is(metrics.sum("requests_total"), 7.5);
  assert.is(metrics.sum("requests_total", { verb: "list" }), 4.5);
  assert.is(metrics.sum("seconds_bucket", { lane: "claim", le: "+Inf" }), 7);
  assert.is(metrics.sum("process_cpu_seconds_total"), 1.25);
  assert.is(metrics.sum("big"), 1_000_000);
});

test("parseMetrics: a quote and a brace in a label are part of it", () => {
  assert.is(metrics.sum("requests_total", { verb: "get" }), 3);
});

test("parseMetrics: what is not there is 0", () => {
  assert.is(metrics.sum("requests"), 0);
  assert.is(metrics.sum("requests_total", { verb: "watch" }), 0);
});

function histogram(counts: Record<string, number>) {
  const lines = Object.entries(counts).map(([le, count]) => `seconds_bucket{le="${le}",controller="claim"} ${count}`);
  return parseMetrics(`${lines.join("\n")}\nseconds_bucket{le="+Inf",controller="pod"} 1000\n`);
}

test("histogramQuantile: of what came between two looks, in proportion within a bucket", () => {
  const labels = { controller: "claim" };
  const before = histogram({ 1: 100, 2: 100, 5: 100, "+Inf": 100 });
  const after = histogram({ 1: 110, 2: 130, 5: 138, "+Inf": 140 });
  const quantile = (share: number) => histogramQuantile(before, after, { name: "seconds", labels, share });
  assert.is(quantile(0.25), 1);
  assert.is(quantile(0.5), 1.5);
  assert.is(quantile(0.85), 3.5);
  // Beyond the last bound nothing is known.
  assert.is(quantile(0.99), 5);
});

test("histogramQuantile: NaN where nothing came", () => {
  const same = histogram({ 1: 3, "+Inf": 3 });
  assert.ok(Number.isNaN(histogramQuantile(same, same, { name: "seconds", share: 0.5 })));
  assert.ok(Number.isNaN(histogramQuantile(same, same, { name: "others", share: 0.5 })));
});

test.run();
