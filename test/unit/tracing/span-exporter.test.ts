// @runtimes bun node deno
import { Registry } from "prom-client";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createSpanExporter } from "../../../crds/tracing/span-exporter.ts";
import { startTracing } from "../../../crds/tracing/start-tracing.ts";
import { createTracer, type Tracer } from "../../../crds/tracing/tracer.ts";
import { tracingConfig } from "../../../crds/tracing/tracing-config.ts";
import { eventually } from "../../eventually.ts";
import { manualClock } from "../manual-clock.ts";
import { silentLog } from "../silent-log.ts";
import { type Collector, startCollector } from "./collector.ts";

const test = suite("export of spans");
const DELAY_MS = 5000;
let collector: Collector;

test.before.each(async () => {
  collector = await startCollector();
});
test.after.each(() => collector.stop());

function exporterTo() {
  const url = `${collector.url}/v1/traces`;
  const clock = manualClock();
  const warnings: object[] = [];
  const log = { ...silentLog, warn: (fields: object) => void warnings.push(fields) };
  const headers = { authorization: "Bearer s3cret", "content-type": "application/json" };
  const exporter = createSpanExporter({
    url,
    headers,
    resource: { "service.name": "x" },
    delayMs: DELAY_MS,
    log,
    clock,
  });
  const tracer = createTracer({ sampler: () => true, record: exporter.add });
  return { clock, warnings, exporter, tracer };
}

function end(tracer: Tracer, count: number): void {
  for (let number = 0; number < count; number += 1) tracer.start(`span ${number}`).end();
}

test("spans are gathered, and go out together", async () => {
  const { clock, exporter, tracer } = exporterTo();
  end(tracer, 3);
  assert.is(collector.requests.length, 0);
  assert.is(await clock.runNext(), DELAY_MS);
  await eventually(() => exporter.counts.exported === 3);
  const [request] = collector.requests;
  assert.is(collector.requests.length, 1);
  assert.is(request?.path, "/v1/traces");
  assert.is(request?.headers["content-type"], "application/json");
  assert.is(request?.headers.authorization, "Bearer s3cret");
  assert.equal(
    collector.spans.map(({ name, service }) => `${service} ${name}`),
    ["x span 0", "x span 1", "x span 2"],
  );
  await exporter.close({ limitMs: 60_000 });
  assert.is(clock.pending(), 0);
});

test("a full batch does not wait, and one request holds no more", async () => {
  const { clock, exporter, tracer } = exporterTo();
  end(tracer, 1100);
  assert.is(await clock.runNext(), 0);
  await eventually(() => exporter.counts.exported === 1024);
  // Less than a batch is left, which waits for more.
  assert.is(collector.requests.length, 2);
  await exporter.close({ limitMs: 60_000 });
  assert.is(exporter.counts.exported, 1100);
});

test("with the collector away, memory is bounded, and one line says so", async () => {
  await collector.stop();
  const { clock, warnings, exporter, tracer } = exporterTo();
  end(tracer, 5000);
  assert.is(exporter.counts.dropped, 5000 - 2048);
  await clock.runNext();
  await exporter.close({ limitMs: 60_000 });
  assert.equal(exporter.counts, { exported: 0, dropped: 5000 });
  assert.equal(warnings, [
    { collector: new URL(collector.url).host, problem: "more spans end than the collector takes", dropped: 1 },
  ]);
  end(tracer, 1);
  assert.is(exporter.counts.dropped, 5001);
});

test("a collector that cannot be reached is tried again, and what waited is exported", async () => {
  const { clock, warnings, exporter, tracer } = exporterTo();
  collector.answer = (response) => void response.destroy();
  end(tracer, 2);
  await clock.runNext();
  await eventually(() => warnings.length === 1 && clock.pending() === 1);
  assert.match(JSON.stringify(warnings), "the collector cannot be reached");
  collector.answer = (response) => void response.writeHead(200).end("{}");
  end(tracer, 1);
  await clock.runNext();
  await eventually(() => exporter.counts.exported === 2);
  // What came meanwhile goes with the next ones.
  await eventually(() => clock.pending() === 1);
  await clock.runNext();
  await eventually(() => exporter.counts.exported === 3);
  assert.is(warnings.length, 1);
  await exporter.close({ limitMs: 60_000 });
});

test("statuses that may pass are tried again after the time that the collector asks for; others drop the batch", async () => {
  const { clock, warnings, exporter, tracer } = exporterTo();
  collector.answer = (response) => void response.writeHead(503, { "retry-after": "7" }).end();
  end(tracer, 2);
  await clock.runNext();
  await clock.runWhenNextIs(7000);
  await eventually(() => collector.requests.length === 2);
  collector.answer = (response) => void response.writeHead(200).end("{}");
  await clock.runWhenNextIs(7000);
  await eventually(() => exporter.counts.exported === 2);
  collector.answer = (response) => void response.writeHead(400).end("x".repeat(100));
  end(tracer, 3);
  await clock.runWhenNextIs(DELAY_MS);
  await eventually(() => exporter.counts.dropped === 3);
  collector.answer = (response) => void response.writeHead(307, { location: `${collector.url}/elsewhere` }).end();
  end(tracer, 1);
  await clock.runWhenNextIs(DELAY_MS);
  await eventually(() => exporter.counts.dropped === 4);
  assert.not.ok(collector.requests.some(({ path }) => path === "/elsewhere"));
  assert.is(warnings.length, 1, "one line in five minutes");
  await exporter.close({ limitMs: 60_000 });
});

test("spans that the collector refuses of a batch are counted as dropped", async () => {
  const { clock, exporter, tracer } = exporterTo();
  collector.answer = (response) => void response.writeHead(200).end('{"partialSuccess":{"rejectedSpans":"2"}}');
  end(tracer, 5);
  await clock.runNext();
  await eventually(() => exporter.counts.exported > 0);
  assert.equal(exporter.counts, { exported: 3, dropped: 2 });
  await exporter.close({ limitMs: 60_000 });
});

test("a collector that never answers holds neither the work nor the stop up", async () => {
  const { clock, warnings, exporter, tracer } = exporterTo();
  collector.answer = () => undefined;
  end(tracer, 600);
  await clock.runNext();
  await eventually(() => collector.requests.length === 1);
  // The limit of a request.
  await clock.runWhenNextIs(10_000);
  await eventually(() => warnings.length === 1);
  assert.match(JSON.stringify(warnings), "took longer than 10 s");
  await exporter.close({ limitMs: 50 });
  assert.equal(exporter.counts, { exported: 0, dropped: 600 });
  assert.is(clock.pending(), 0);
});

test("the settings of the environment are what is done, and a metric counts", async () => {
  const env = {
    OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/otlp`,
    OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=test",
    OTEL_TRACES_SAMPLER: "parentbased_always_off",
  };
  const config = tracingConfig(env, { service: "tenancy-edge" });
  if (config === undefined) throw new Error("tracing is off");
  const registry = new Registry();
  const tracing = startTracing({ config, registry, log: silentLog });
  tracing.tracer.start("not sampled").end();
  tracing.tracer.start("sampled", { parent: { traceId: "a".repeat(32), spanId: "b".repeat(16), sampled: true } }).end();
  await tracing.close();
  assert.equal(
    collector.spans.map(({ name, service, parentSpanId }) => [name, service, parentSpanId]),
    [["sampled", "tenancy-edge", "b".repeat(16)]],
  );
  assert.is(collector.requests[0]?.path, "/otlp/v1/traces");
  assert.match(collector.requests[0]?.body ?? "", '"deployment.environment.name"');
  const text = await registry.metrics();
  assert.match(text, 'tenancy_trace_spans_total{outcome="exported"} 1');
  assert.match(text, 'tenancy_trace_spans_total{outcome="dropped"} 0');
});

test.run();
