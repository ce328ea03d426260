import { randomUUID } from "node:crypto";
import { Counter, type Registry } from "prom-client";
import type { Log } from "../log.ts";
import { createSpanExporter } from "./span-exporter.ts";
import { createTracer, type Tracer } from "./tracer.ts";
import type { TracingConfig } from "./tracing-config.ts";

/** The traces of this process. */
export interface Tracing {
  readonly tracer: Tracer;
  /** Exports the remaining spans, for at most {@link CLOSE_LIMIT_MS}. */
  close(): Promise<void>;
}

const CLOSE_LIMIT_MS = 3000;

/** Starts to record and export spans. */
export function startTracing(options: { config: TracingConfig; registry: Registry; log: Log }): Tracing {
  const { config, registry, log } = options;
  const { url, headers, delayMs, sampler } = config;
  const resource = { "service.instance.id": randomUUID(), ...config.resource };
  const exporter = createSpanExporter({ url, headers, resource, delayMs, log });
  new Counter({
    name: "tenancy_trace_spans_total",
    help: "Spans that the collector accepted, and spans dropped because it was slow or unreachable",
    labelNames: ["outcome"],
    registers: [registry],
    collect() {
      this.reset();
      this.inc({ outcome: "exported" }, exporter.counts.exported);
      this.inc({ outcome: "dropped" }, exporter.counts.dropped);
    },
  });
  return {
    tracer: createTracer({ sampler, record: exporter.add }),
    close: () => exporter.close({ limitMs: CLOSE_LIMIT_MS }),
  };
}
