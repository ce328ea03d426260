import { createTracer, type EndedSpan, type Tracer } from "../../../crds/tracing/tracer.ts";

/** A tracer whose spans a test can read. */
export interface Recorder {
  readonly tracer: Tracer;
  readonly spans: EndedSpan[];
  /** Each span as `parent > name` where the parent was recorded too, in the order of the alphabet. */
  family(): string[];
  /** The span of that name. */
  one(name: string): EndedSpan;
}

export function createRecorder(): Recorder {
  const spans: EndedSpan[] = [];
  const record = (span: EndedSpan) => void spans.push(span);
  const nameOf = (id: string | undefined) => spans.find(({ context }) => context.spanId === id)?.name;
  return {
    tracer: createTracer({ sampler: (parent) => parent?.sampled ?? true, record }),
    spans,
    family: () =>
      spans
        .map(({ name, parentSpanId }) => [nameOf(parentSpanId), name].filter((part) => part !== undefined).join(" > "))
        .sort(),
    one(name) {
      const found = spans.filter((span) => span.name === name);
      if (found.length !== 1) throw new Error(`${found.length} spans are named ${name}: ${spans.map((s) => s.name)}`);
      return found[0] as EndedSpan;
    },
  };
}
