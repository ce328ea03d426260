import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import type { TriggerSpec } from "../../crds/trigger.ts";

const eventResults = [
  "answered",
  "denied",
  "refused",
  "failed",
  /** Its run was aborted by the edge's stop, or by its adapter. */
  "aborted",
  /** webhook: answered with the first answer. */
  "repeated",
  /** webhook: its signature is missing or wrong. */
  "unsigned",
  /** It is not a delivery, or too many wait already. */
  "rejected",
  /** cron: no replica could fire it in time. */
  "missed",
] as const;

/** What became of an event that reached an adapter. */
export type EventResult = (typeof eventResults)[number];

type Source = TriggerSpec["type"];
const sources: readonly Source[] = ["webhook", "messenger", "cron"];

/** What the gateway measures of itself; no label tells triggers or tenants apart. */
export interface GatewayMetrics {
  /** Counts an event that ended without a run. */
  count(source: Source, result: EventResult): void;
  /** Counts an event's run, and the seconds from its arrival to its reply. */
  observe(source: Source, result: EventResult, seconds: number): void;
}

/** Adds the gateway's figures to a registry. */
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
    help: "Events of triggers, by what became of them",
    labelNames: ["source", "result"],
    registers,
  });
  // The first of its kind is an increase for who sees a 0 before it.
  for (const source of sources) for (const result of eventResults) events.inc({ source, result }, 0);
  const seconds = new Histogram({
    name: "tenancy_gateway_event_duration_seconds",
    help: "Time from an event's arrival at its adapter to its reply",
    labelNames: ["source", "result"],
    buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300],
    registers,
  });
  gauge("tenancy_gateway_events_in_flight", "Events that are between arrival and reply", gauges.inFlight);
  gauge("tenancy_gateway_events_waiting", "Events that wait for their turn", gauges.waiting);
  gauge("tenancy_gateway_bots_polled", "Bots whose messenger answers the polls of this process", gauges.botsPolled);
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
