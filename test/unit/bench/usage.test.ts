import { test } from "uvu";
import * as assert from "uvu/assert";
import { parseSockets, receivedBetween } from "../../../scripts/bench/environment/received-bytes.ts";
import { readServerCounts, serverCountsPerClaim } from "../../../scripts/bench/environment/server-counts.ts";
import {
  histogramQuantile,
  machineShare,
  machineTime,
  parseMetrics,
} from "../../../scripts/bench/environment/usage.ts";

test("machineTime: adds up all cores, and counts the time of guests once", () => {
  const stat = "cpu  100 10 50 800 20 5 15 0 40 4\ncpu0 50 5 25 400 10 2 8 0 20 2\nintr 1\n";
  assert.equal(machineTime(stat), { totalMs: 10_000, idleMs: 8200 });
});

test("machineShare: others have what is neither idle nor ours, and never less than nothing", () => {
  const at = (totalMs: number, idleMs: number) => ({ totalMs, idleMs });
  assert.equal(machineShare(at(10_000, 4000), at(20_000, 7000), 5000), { idle: 0.3, others: 0.2 });
  assert.equal(machineShare(at(0, 0), at(100, 50), 60), { idle: 0.5, others: 0 });
  assert.equal(machineShare(at(0, 0), at(0, 0), 0), { idle: 0, others: 0 });
});

test("parseMetrics: adds up the series of a name, all or those with the labels", () => {
  const metrics = parseMetrics(`# HELP requests_total Requests
requests_total{verb="get",path="/a\\"b}"} 3
requests_total{verb="list",path=""} 4.5
process_cpu_seconds_total 1.25 1700000000000
seconds_bucket{le="+Inf",lane="claim"} 7
big 1e+06
`);
  for (const [name, labels, sum] of [
    ["requests_total", undefined, 7.5],
    ["requests_total", { verb: "list" }, 4.5],
    ["requests_total", { verb: "get" }, 3],
    ["requests_total", { verb: "watch" }, 0],
    ["requests", undefined, 0],
    ["seconds_bucket", { lane: "claim", le: "+Inf" }, 7],
    ["process_cpu_seconds_total", undefined, 1.25],
    ["big", undefined, 1_000_000],
  ] as const) {
    assert.is(metrics.sum(name, labels), sum, `${name} ${JSON.stringify(labels)}`);
  }
});

test("histogramQuantile: of what came between two readings, in proportion within a bucket; NaN of nothing", () => {
  const histogram = (counts: Record<string, number>) => {
    const lines = Object.entries(counts).map(([le, count]) => `seconds_bucket{le="${le}",controller="claim"} ${count}`);
    return parseMetrics(`${lines.join("\n")}\nseconds_bucket{le="+Inf",controller="pod"} 1000\n`);
  };
  const before = histogram({ 1: 100, 2: 100, 5: 100, "+Inf": 100 });
  const after = histogram({ 1: 110, 2: 130, 5: 138, "+Inf": 140 });
  const labels = { controller: "claim" };
  const quantile = (share: number) => histogramQuantile(before, after, { name: "seconds", labels, share });
  // Beyond the last bound nothing is known.
  assert.equal([0.25, 0.5, 0.85, 0.99].map(quantile), [1, 1.5, 3.5, 5]);
  assert.ok(Number.isNaN(histogramQuantile(after, after, { name: "seconds", share: 0.5 })));
  assert.ok(Number.isNaN(histogramQuantile(before, after, { name: "others", share: 0.5 })));
});

test("parseSockets: bytes of each connection and its owner; nothing of those whose owner is not shown", () => {
  const printed = `0      0        127.0.0.1:41178   127.0.0.1:6443 users:(("node (x",pid=24694,fd=222))
\t bbr wscale:10,10 rto:200 bytes_sent:12976 bytes_acked:12976 bytes_received:97 segs_out:1 segs_in:3
0      0            [::1]:25962       [::1]:6443 users:(("bun",pid=26030,fd=76))
\t cubic wscale:10,10 bytes_received:9488
0      0        127.0.0.1:25963   127.0.0.1:6443 users:(("bun",pid=26030,fd=77))
\t cubic wscale:10,10
0      0        127.0.0.1:25964   127.0.0.1:6443
\t cubic wscale:10,10 bytes_received:5
`;
  const found = parseSockets(printed).map(({ pid, bytes }) => `${pid} ${bytes}`);
  assert.equal(found, ["24694 97", "26030 9488", "26030 0"]);
  assert.equal(parseSockets(""), []);
});

test("receivedBetween: what one program received, over connections that are new since too", () => {
  const socket = (pid: number, connection: string, bytes: number) => ({ pid, connection, bytes });
  const before = [socket(1, "a", 100), socket(1, "ended", 1000)];
  assert.is(receivedBetween(before, [socket(1, "a", 150), socket(1, "new", 30), socket(2, "other", 7)], 1), 80);
});

test("serverCountsPerClaim: writes of all clients with those refused, without reads and leases, the most first", () => {
  const request = (verb: string, resource: string, count: number, subresource = "", code = 200) =>
    `apiserver_request_total{code="${code}",dry_run="",verb="${verb}",resource="${resource}",subresource="${subresource}"} ${count}`;
  const counts = (factor: number) =>
    readServerCounts(
      parseMetrics(
        [
          request("POST", "tenancyclaims", 10 * factor, "", 201),
          request("PATCH", "tenancyclaims", 10 * factor, "status"),
          request("PATCH", "pods", 18 * factor),
          request("PATCH", "pods", 2 * factor, "", 409),
          request("DELETE", "tenancypools", 1),
          request("PATCH", "pods", 30 * factor, "status"),
          request("PUT", "leases", 5 * factor),
          request("GET", "pods", 40 * factor),
          `apiserver_watch_events_total{kind="Pod"} ${200 * factor}`,
          `apiserver_watch_events_total{kind="TenancyClaim"} ${40 * factor}`,
          `apiserver_watch_events_sizes_sum{kind="Pod"} ${1024 * 1024 * factor}`,
          `apiserver_watch_events_sizes_bucket{kind="Pod",le="+Inf"} 9`,
        ].join("\n"),
      ),
    );
  const found = serverCountsPerClaim(counts(1), counts(2), 10);
  assert.equal(Object.entries(found.writes), [
    ["PATCH pods/status", 3],
    ["PATCH pods", 2],
    ["POST tenancyclaims", 1],
    ["PATCH tenancyclaims/status", 1],
  ]);
  assert.equal([found.watchEvents, found.watchKb], [24, 102.4]);
});

test.run();
