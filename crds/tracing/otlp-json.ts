import type { Attributes, EndedSpan, SpanKind } from "./tracer.ts";

// https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: the protobuf JSON mapping, but ids in hexadecimal
// digits and enumerations as integers.

const KINDS: Readonly<Record<SpanKind, number>> = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 };
const STATUS_ERROR = 2;
const MOST_CHARACTERS = 256;

/**
 * The body of an export: an ExportTraceServiceRequest.
 *
 * https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/trace/v1/trace.proto
 */
export function exportRequest(spans: readonly EndedSpan[], resource: Attributes): string {
  return JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: keyValues(resource) },
        scopeSpans: [{ scope: { name: "tenancy" }, spans: spans.map(spanOf) }],
      },
    ],
  });
}

function spanOf(span: EndedSpan): object {
  const { context, parentSpanId, name, kind, startMs, endMs, attributes, links, isError } = span;
  return {
    traceId: context.traceId,
    spanId: context.spanId,
    ...(parentSpanId !== undefined && { parentSpanId }),
    name,
    kind: KINDS[kind],
    startTimeUnixNano: nanoseconds(startMs),
    endTimeUnixNano: nanoseconds(endMs),
    attributes: keyValues(attributes),
    ...(links.length > 0 && { links: links.map(({ traceId, spanId }) => ({ traceId, spanId })) }),
    ...(isError && { status: { code: STATUS_ERROR } }),
  };
}

function keyValues(attributes: Attributes): object[] {
  return Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: anyValue(value) }],
  );
}

function anyValue(value: string | number | boolean): object {
  if (typeof value === "string") return { stringValue: value.slice(0, MOST_CHARACTERS) };
  if (typeof value === "boolean") return { boolValue: value };
  return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}

/**
 * A double cannot represent nanoseconds since the epoch, so whole milliseconds and the rest are converted separately.
 */
function nanoseconds(ms: number): string {
  const whole = Math.floor(ms);
  return String(BigInt(whole) * 1_000_000n + BigInt(Math.round((ms - whole) * 1e6)));
}
