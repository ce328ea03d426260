// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createHandler } from "../../../edge/http/handler.ts";
import { createMetrics, probeRoutes } from "../../../edge/metrics.ts";
import { silentLog } from "../silent-log.ts";

const test = suite("metrics and probes");

function probes(
  gauges = { waiting: () => 3, claimLimit: () => Number.POSITIVE_INFINITY, listening: () => 2, isFresh: () => true },
) {
  const metrics = createMetrics(gauges);
  const routes = probeRoutes({ metrics, isReady: gauges.isFresh });
  const handler = createHandler({ routes, log: silentLog, instance: "p" });
  return { metrics, get: (path: string) => handler(new Request(`http://edge.test${path}`)) };
}

test("requests are counted by method, route and status, with a bounded set of methods", async () => {
  const { metrics, get } = probes();
  const answered = { route: "/api/v1/tenants/:id", status: 200, ms: 20, requestId: "r" };
  for (const method of ["GET", "GET", "QUERY", "WHATEVER"]) metrics.answered({ ...answered, method });
  const response = await get("/metrics");
  assert.match(response.headers.get("content-type") ?? "", /^text\/plain/);
  const text = await response.text();
  const name = "tenancy_edge_request_duration_seconds";
  const labels = (method: string) => `method="${method}",route="/api/v1/tenants/:id",status="200"`;
  assert.match(text, `${name}_count{${labels("GET")}} 2`);
  assert.match(text, `${name}_count{${labels("other")}} 2`);
  assert.match(text, `${name}_sum{${labels("GET")}} 0.04`);
  assert.match(text, `${name}_bucket{le="0.01",${labels("GET")}} 0`);
  assert.match(text, `${name}_bucket{le="0.025",${labels("GET")}} 2`);
  assert.not.match(text, "QUERY");
});

test("gauges are read when they are asked for", async () => {
  let isFresh = true;
  const { get } = probes({ waiting: () => 7, claimLimit: () => 40, listening: () => 9, isFresh: () => isFresh });
  const first = await (await get("/metrics")).text();
  assert.match(first, "tenancy_edge_waiting_calls 7\n");
  assert.match(first, "tenancy_edge_event_clients 9\n");
  assert.match(first, "tenancy_edge_claim_limit 40\n");
  isFresh = false;
  const text = await (await get("/metrics")).text();
  assert.match(text, "tenancy_edge_cluster_contact 0\n");
  assert.match(text, /process_resident_memory_bytes [1-9]/);
  assert.match(text, /process_cpu_seconds_total [0-9.]+/);
  const [, startedAt] = /^process_start_time_seconds (\d+)$/m.exec(text) ?? [];
  assert.ok(Math.abs(Number(startedAt) - (Date.now() / 1000 - process.uptime())) < 2, startedAt);
});

test("readyz follows the view of the cluster, healthz does not", async () => {
  for (const ready of [true, false]) {
    const { get } = probes({ waiting: () => 0, claimLimit: () => 0, listening: () => 0, isFresh: () => ready });
    assert.is((await get("/readyz")).status, ready ? 200 : 503);
    assert.is((await get("/healthz")).status, 200);
  }
});

test.run();
