import { systemClock } from "../client/clock.ts";
import { newSpanId, newTraceId, type TraceContext } from "./trace-context.ts";

/** Attributes; undefined ones are left out. */
export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

export type SpanKind = "internal" | "server" | "client" | "producer" | "consumer";

/** A span that has ended. */
export interface EndedSpan {
  readonly context: TraceContext;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly kind: SpanKind;
  /** Milliseconds since the epoch. */
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Attributes;
  readonly links: readonly SpanIds[];
  readonly isError: boolean;
}

/** Identifies a span of any trace. */
export type SpanIds = Pick<TraceContext, "traceId" | "spanId">;

export interface SpanOptions {
  /** @default "internal" */
  readonly kind?: SpanKind;
  readonly attributes?: Attributes;
  /** Related spans of other traces. @default none */
  readonly links?: readonly SpanIds[];
  /** Milliseconds since the epoch. @default now */
  readonly startMs?: number | undefined;
}

/** A span in progress. If it is not recorded, its attributes are dropped, but its context is still passed on. */
export interface Span {
  readonly context: TraceContext;
  rename(name: string): void;
  set(attributes: Attributes): void;
  child(name: string, options?: SpanOptions): Span;
  /**
   * Records the span, at the first call. A span without an end is never recorded.
   *
   * @param ended.error marks it as failed; only the kind of the error is recorded
   * @param ended.endMs milliseconds since the epoch. @default now
   */
  end(ended?: { error?: unknown; endMs?: number }): void;
}

/** Begins spans. */
export interface Tracer {
  /**
   * @param options.parent the parent span, of this process or another. @default it begins a trace
   * @param options.ids of this span, if other programs have to derive them. @default new ones
   */
  start(name: string, options?: SpanOptions & { parent?: TraceContext | undefined; ids?: SpanIds }): Span;
}

/** Decides whether a span is recorded, from its parent and its trace id. */
export type Sampler = (parent: TraceContext | undefined, traceId: string) => boolean;

/**
 * @param options.record called with each ended span; it must not throw or wait
 * @param options.now milliseconds since the epoch. @default this machine's clock
 * @param options.elapsed milliseconds, monotonic. @default performance.now
 */
export function createTracer(options: {
  sampler: Sampler;
  record: (span: EndedSpan) => void;
  now?: () => number;
  elapsed?: () => number;
}): Tracer {
  const { sampler, record, now = systemClock.now, elapsed = performance.now.bind(performance) } = options;

  function begin(name: string, context: TraceContext, parentSpanId: string | undefined, given: SpanOptions): Span {
    let current = name;
    let attributes = given.attributes ?? {};
    let isOver = false;
    const { kind = "internal", links = [], startMs = now() } = given;
    // A change of the system's clock does not change the duration of a span.
    const offset = elapsed() - (now() - startMs);
    return {
      context,
      rename(to) {
        current = to;
      },
      set(more) {
        attributes = { ...attributes, ...more };
      },
      child: (childName, childOptions = {}) =>
        begin(childName, { ...context, spanId: newSpanId() }, context.spanId, childOptions),
      end({ error, endMs = startMs + Math.max(0, elapsed() - offset) } = {}) {
        if (isOver || !context.sampled) return;
        isOver = true;
        const isError = error !== undefined;
        record({
          ...{ context, parentSpanId, name: current, kind, startMs, endMs: Math.max(startMs, endMs), links, isError },
          attributes: isError ? { ...attributes, "error.type": errorType(error) } : attributes,
        });
      },
    };
  }

  return {
    start(name, { parent, ids, ...rest } = {}) {
      const traceId = parent?.traceId ?? ids?.traceId ?? newTraceId();
      const context = { traceId, spanId: ids?.spanId ?? newSpanId(), sampled: sampler(parent, traceId) };
      return begin(name, context, parent?.spanId, rest);
    },
  };
}

/** Runs the work in a span that ends with it; without a span, only runs the work. */
export function inSpan<T>(span: Span | undefined, work: () => Promise<T>): Promise<T> {
  if (span === undefined) return work();
  return work().then(
    (value) => {
      span.end();
      return value;
    },
    (error: unknown) => {
      span.end({ error });
      throw error;
    },
  );
}

/** A status or a name, never a message: a message may quote a tenant's data. */
function errorType(error: unknown): string {
  if (typeof error === "string") return error;
  if (!(error instanceof Error)) return "error";
  return "status" in error && typeof error.status === "number" ? String(error.status) : error.name;
}
