import { test } from "uvu";
import * as assert from "uvu/assert";
import { readServerCounts, serverCountsPerClaim } from "../../../scripts/bench/environment/server-counts.ts";
import { parseMetrics } from "../../../scripts/bench/environment/usage.ts";

function metricsText(factor: number): string {
  const request = (verb: string, resource: string, count: number, subresource = "", code = 200) =>
    `apiserver_request_total{code="${code}",dry_run="",verb="${verb}",resource="${resource}",subresource="${subresource}"} ${count}`;
  return [
    request("POST", "tenancyclaims", 10 * factor, "", 201),
    request("PATCH", "tenancyclaims", 10 * factor, "status"),
    request("PATCH", "pods", 18 * factor),
    request("PATCH", "pods", 2 * factor, "", 409),
    request("DELETE", "tenancypools", 1),
    request("PATCH", "pods", 30 * factor, "status"),
    request("POST", "pods", 10 * factor, "binding"),
    request("PUT", "leases", 5 * factor),
    request("GET", "pods", 40 * factor),
    `apiserver_watch_events_total{kind="Pod"} ${200 * factor}`,
    `apiserver_watch_events_total{kind="TenancyClaim"} ${40 * factor}`,
    `apiserver_watch_events_sizes_sum{kind="Pod"} ${1024 * 1024 * factor}`,
    `apiserver_watch_events_sizes_bucket{kind="Pod",le="+Inf"} 9`,
  ].join("\n");
}

test("readServerCounts: writes, refused ones too, those of nodes too, without reads and leases", () => {
  assert.equal(readServerCounts(parseMetrics(metricsText(1))), {
    writes: {
      "POST tenancyclaims": 10,
      "PATCH tenancyclaims/status": 10,
      "PATCH pods": 20,
      "DELETE tenancypools": 1,
      "PATCH pods/status": 30,
      "POST pods/binding": 10,
    },
    watchEvents: 240,
    watchKb: 1024,
  });
});

test("serverCountsPerClaim: the difference a claim, most first, without what was not written", () => {
  const [before, after] = [1, 2].map((factor) => readServerCounts(parseMetrics(metricsText(factor))));
  if (before === undefined || after === undefined) throw new Error("no counts");
  const found = serverCountsPerClaim(before, after, 10);
  assert.equal(Object.entries(found.writes), [
    ["PATCH pods/status", 3],
    ["PATCH pods", 2],
    ["POST tenancyclaims", 1],
    ["PATCH tenancyclaims/status", 1],
    ["POST pods/binding", 1],
  ]);
  assert.equal([found.watchEvents, found.watchKb], [24, 102.4]);
});

test.run();
