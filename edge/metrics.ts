import { Counter, Gauge, Histogram, Registry } from "prom-client";
import { systemClock } from "../crds/client/clock.ts";
import type { AnsweredRequest } from "./http/handler.ts";
import { jsonResponse } from "./http/response.ts";
import type { Route } from "./http/router.ts";

/** The edge's metrics. */
export interface Metrics {
  /** Counts a request and its response. */
  answered(answered: AnsweredRequest): void;
  /** Counts an object of the cluster whose handler failed. */
  handlerFailed(resource: string): void;
  /** Counts a claim call that was refused because the cluster is busy. */
  claimRefused(): void;
  /** Counts a record of the audit log that is not written. */
  auditLost(why: "unauthenticated" | "output"): void;
  /** Counts a failed write of the audit log. */
  auditFailed(): void;
  /** The Prometheus text format. */
  render(): Promise<string>;
  readonly contentType: string;
  /** For metrics of optional parts. */
  readonly registry: Registry;
}

const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]);

/** Makes its own registry, so that two edges in one process do not share metrics. */
export function createMetrics(gauges: {
  waiting: () => number;
  claimLimit: () => number;
  listening: () => number;
  isFresh: () => boolean;
  /** @default a new one */
  registry?: Registry;
}): Metrics {
  const { registry = new Registry() } = gauges;
  const registers = [registry];
  const seconds = new Histogram({
    name: "tenancy_edge_request_duration_seconds",
    help: "Time from a request's head to its response's head",
    labelNames: ["method", "route", "status"],
    buckets: [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
    registers,
  });
  const handlerFailures = new Counter({
    name: "tenancy_edge_handler_failures_total",
    help: "Failures to handle an object of the cluster; the log names the object",
    labelNames: ["resource"],
    registers,
  });
  const refusedClaims = new Counter({
    name: "tenancy_edge_claims_refused_total",
    help: "Claims that were not begun because the API server is slow, each try of a webhook, bot or visitor included",
    registers,
  });
  const lostRecords = new Counter({
    name: "tenancy_edge_audit_lost_total",
    help: "Records that the audit log lacks: too many requests without a valid key, or a full or slow output",
    labelNames: ["why"],
    registers,
  });
  const failedWrites = new Counter({
    name: "tenancy_edge_audit_failures_total",
    help: "Failed writes of the audit log, which are tried again",
    registers,
  });
  new Gauge({
    name: "tenancy_edge_claim_limit",
    help: "Claim calls that may be under way at the same time; +Inf unless the cluster is busy",
    registers,
    collect() {
      this.set(gauges.claimLimit());
    },
  });
  new Gauge({
    name: "tenancy_edge_waiting_calls",
    help: "Claim and release calls waiting for the operator",
    registers,
    collect() {
      this.set(gauges.waiting());
    },
  });
  new Gauge({
    name: "tenancy_edge_event_clients",
    help: "Open WebSockets for events",
    registers,
    collect() {
      this.set(gauges.listening());
    },
  });
  new Gauge({
    name: "tenancy_edge_cluster_contact",
    help: "1 while every watch of the cluster is open",
    registers,
    collect() {
      this.set(gauges.isFresh() ? 1 : 0);
    },
  });
  new Gauge({
    name: "process_resident_memory_bytes",
    help: "Resident memory in bytes",
    registers,
    collect() {
      this.set(process.memoryUsage.rss());
    },
  });
  new Gauge({
    name: "process_start_time_seconds",
    help: "When the process started, in seconds since the epoch",
    registers,
  }).set(Math.round(systemClock.now() / 1000 - process.uptime()));
  new Counter({
    name: "process_cpu_seconds_total",
    help: "CPU time in seconds",
    registers,
    collect() {
      const { user, system } = process.cpuUsage();
      this.reset();
      this.inc((user + system) / 1e6);
    },
  });
  // Finding the series of a label set costs more than the rest of a health request.
  const series = new Map<string, ReturnType<typeof seconds.labels>>();

  return {
    contentType: registry.contentType,
    registry,
    handlerFailed: (resource) => handlerFailures.inc({ resource }),
    claimRefused: () => refusedClaims.inc(),
    auditLost: (why) => lostRecords.inc({ why }),
    auditFailed: () => failedWrites.inc(),
    render: () => registry.metrics(),
    answered({ method, route, status, ms }) {
      const name = METHODS.has(method) ? method : "other";
      const key = `${name} ${status} ${route}`;
      let known = series.get(key);
      if (known === undefined) {
        known = seconds.labels(name, route, String(status));
        series.set(key, known);
      }
      known.observe(ms / 1000);
    },
  };
}

/** Routes of the metrics listener: `/metrics`, `/healthz` (alive), `/readyz` (caches are fresh). */
export function probeRoutes(options: { metrics: Metrics; isReady: () => boolean }): Route[] {
  const { metrics, isReady } = options;
  return [
    {
      method: "GET",
      path: "/metrics",
      query: "any",
      async handle() {
        return new Response(await metrics.render(), { headers: { "content-type": metrics.contentType } });
      },
    },
    { method: "GET", path: "/healthz", query: "any", handle: () => jsonResponse({ status: "ok" }) },
    {
      method: "GET",
      path: "/readyz",
      query: "any",
      handle: () =>
        isReady()
          ? jsonResponse({ status: "ok" })
          : jsonResponse({ error: "the cache of the cluster is not current" }, { status: 503 }),
    },
  ];
}
