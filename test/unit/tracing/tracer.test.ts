import { suite } from "uvu";
import * as assert from "uvu/assert";
import { exportRequest } from "../../../crds/tracing/otlp-json.ts";
import { createTracer, type EndedSpan, inSpan } from "../../../crds/tracing/tracer.ts";

const test = suite("spans");
const START = Date.parse("2026-01-01T00:00:00.000Z");
const parent = { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", spanId: "00f067aa0ba902b7", sampled: true };

function recorder(sampled = true) {
  const spans: EndedSpan[] = [];
  const time = { wall: START, elapsed: 0 };
  const tracer = createTracer({
    sampler: () => sampled,
    record: (span) => void spans.push(span),
    now: () => time.wall,
    elapsed: () => time.elapsed,
  });
  return { spans, time, tracer };
}

test("a span belongs to its parent, and children to it", () => {
  const { spans, tracer } = recorder();
  const span = tracer.start("a", { parent });
  span.child("b").end();
  span.end();
  const [child, root] = spans;
  assert.equal(
    [root, child].map((ended) => [ended?.name, ended?.context.traceId, ended?.parentSpanId]),
    [
      ["a", parent.traceId, parent.spanId],
      ["b", parent.traceId, root?.context.spanId],
    ],
  );
  assert.is.not(root?.context.spanId, child?.context.spanId);
  const other = tracer.start("begins a trace").context;
  assert.match(other.traceId, /^[0-9a-f]{32}$/);
  assert.is.not(other.traceId, parent.traceId);
});

test("of two ends the first counts, and a clock that is set changes no duration", () => {
  const { spans, time, tracer } = recorder();
  const span = tracer.start("a");
  time.wall -= 3_600_000;
  time.elapsed += 12.5;
  span.end();
  time.elapsed += 1000;
  span.end();
  assert.is(spans.length, 1);
  assert.equal([spans[0]?.startMs, spans[0]?.endMs], [START, START + 12.5]);
});

test("one that is not sampled records nothing, and passes its context on", () => {
  const { spans, tracer } = recorder(false);
  const span = tracer.start("a", { parent });
  const child = span.child("b");
  child.end();
  span.end();
  assert.equal(spans, []);
  assert.equal([child.context.traceId, child.context.sampled], [parent.traceId, false]);
});

test("work within a span ends it, and of an error only the kind is told", async () => {
  const { spans, tracer } = recorder();
  assert.is(await inSpan(tracer.start("good"), async () => 1), 1);
  const error = Object.assign(new Error("the tenant's s3cret"), { status: 503 });
  await inSpan(tracer.start("bad"), () => Promise.reject(error)).then(assert.unreachable, (seen: unknown) =>
    assert.is(seen, error),
  );
  await inSpan(tracer.start("worse"), () => Promise.reject(new RangeError("s3cret"))).catch(() => undefined);
  assert.equal(
    spans.map(({ name, isError, attributes }) => [name, isError, attributes["error.type"]]),
    [
      ["good", false, undefined],
      ["bad", true, "503"],
      ["worse", true, "RangeError"],
    ],
  );
  assert.not.match(exportRequest(spans, {}), "s3cret");
  assert.is(await inSpan(undefined, async () => 2), 2);
});

test("OTLP's JSON has ids in hexadecimal digits, nanoseconds as strings and kinds as numbers", () => {
  const { spans, time, tracer } = recorder();
  const span = tracer.start("GET", {
    parent,
    kind: "server",
    links: [{ traceId: "a".repeat(32), spanId: "b".repeat(16) }],
  });
  span.rename("GET /x/:id");
  span.set({
    "http.response.status_code": 500,
    "a.flag": true,
    "a.ratio": 0.5,
    none: undefined,
    long: "x".repeat(300),
  });
  time.elapsed += 0.123456;
  span.end({ error: "500" });
  assert.equal(JSON.parse(exportRequest(spans, { "service.name": "edge" })), {
    resourceSpans: [
      {
        resource: { attributes: [{ key: "service.name", value: { stringValue: "edge" } }] },
        scopeSpans: [
          {
            scope: { name: "tenancy" },
            spans: [
              {
                traceId: parent.traceId,
                spanId: span.context.spanId,
                parentSpanId: parent.spanId,
                name: "GET /x/:id",
                kind: 2,
                startTimeUnixNano: "1767225600000000000",
                endTimeUnixNano: "1767225600000123535",
                attributes: [
                  { key: "http.response.status_code", value: { intValue: "500" } },
                  { key: "a.flag", value: { boolValue: true } },
                  { key: "a.ratio", value: { doubleValue: 0.5 } },
                  { key: "long", value: { stringValue: "x".repeat(256) } },
                  { key: "error.type", value: { stringValue: "500" } },
                ],
                links: [{ traceId: "a".repeat(32), spanId: "b".repeat(16) }],
                status: { code: 2 },
              },
            ],
          },
        ],
      },
    ],
  });
});

test.run();
