import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { TriggerSpec } from "../../crds/trigger.ts";

const eventResults = [
  "answered",
  "denied",
  "refused",
  "failed",
  /** Aborted by the edge's stop, or by its adapter. */
  "aborted",
  /** webhook: repeated, answered with the first answer. */
  "repeated",
  /** webhook: its signature is missing or wrong. */
  "unsigned",
  /** It is not a delivery, or too many are waiting. */
  "rejected",
  /** cron: no replica could fire it in time. */
  "missed",
] as const;

/** The result of an event that reached an adapter. */
export type EventResult = (typeof eventResults)[number];

type Source = TriggerSpec["type"];
const sources: readonly Source[] = ["webhook", "messenger", "cron"];

/** The gateway's metrics; no label identifies triggers or tenants. */
export interface GatewayMetrics {
  /** Counts an event that ended without a run. */
  count(source: Source, result: EventResult): void;
  /** Counts an event's run, and the seconds from its arrival to its reply. */
  observe(source: Source, result: EventResult, seconds: number): void;
}

/** Adds the gateway's metrics to a registry. */
export function createGatewayMetrics(
  registry: Registry,
  gauges: {
    inFlight: () => number;
    waiting: () => number;
    botsPolled: () => number;
    triggers: () => Iterable<{ readonly type: string; readonly phase: string; readonly count: number }>;
  },
): GatewayMetrics {
  const registers = [registry];
  const events = new Counter({
    name: "tenancy_gateway_events_total",
    help: "Events of triggers, by result",
    labelNames: ["source", "result"],
    registers,
  });
  // Start every series at 0, so that its first event is visible as an increase.
  for (const source of sources) for (const result of eventResults) events.inc({ source, result }, 0);
  const seconds = new Histogram({
    name: "tenancy_gateway_event_duration_seconds",
    help: "Time from an event's arrival at its adapter to its reply",
    labelNames: ["source", "result"],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300],
    registers,
  });
  gauge("tenancy_gateway_events_in_flight", "Events between arrival and reply", gauges.inFlight);
  gauge("tenancy_gateway_events_waiting", "Events waiting for a slot", gauges.waiting);
  gauge("tenancy_gateway_bots_polled", "Bots that this process polls successfully", gauges.botsPolled);
  new Gauge({
    name: "tenancy_gateway_triggers",
    help: "Triggers by type and phase",
    labelNames: ["type", "phase"],
    registers,
    collect() {
      this.reset();
      for (const { type, phase, count } of gauges.triggers()) this.set({ type, phase }, count);
    },
  });
  return {
    count: (source, result) => events.inc({ source, result }),
    observe(source, result, duration) {
      events.inc({ source, result });
      seconds.observe({ source, result }, duration);
    },
  };

  function gauge(name: string, help: string, value: () => number): void {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(value());
      },
    });
  }
}
