import { test } from "uvu";
import * as assert from "uvu/assert";
import { parseMetrics } from "../../../scripts/bench/environment/usage.ts";

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

test.run();
