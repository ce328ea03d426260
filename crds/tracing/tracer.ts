import { systemClock } from "../client/clock.ts";
import { newSpanId, newTraceId, type TraceContext } from "./trace-context.ts";

/** Values of attributes; undefined leaves one out. */
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

/** Names a span of any trace. */
export type SpanIds = Pick<TraceContext, "traceId" | "spanId">;

export interface SpanOptions {
  /** @default "internal" */
  readonly kind?: SpanKind;
  readonly attributes?: Attributes;
  /** Spans of other traces that this one has to do with. @default none */
  readonly links?: readonly SpanIds[];
  /** Milliseconds since the epoch. @default now */
  readonly startMs?: number | undefined;
}

/** Work under way. What is set on one that is not recorded is dropped; its context is passed on all the same. */
export interface Span {
  readonly context: TraceContext;
  rename(name: string): void;
  set(attributes: Attributes): void;
  child(name: string, options?: SpanOptions): Span;
  /**
   * Records the span. One that is never ended is never recorded; of two ends the first counts.
   *
   * @param ended.error makes it a failed one; of the error only its kind is told
   * @param ended.endMs milliseconds since the epoch. @default now
   */
  end(ended?: { error?: unknown; endMs?: number }): void;
}

/** Begins spans. */
export interface Tracer {
  /**
   * @param options.parent the span that it belongs to, of this process or another. @default it begins a trace
   * @param options.ids of this span, where others have to know them. @default new ones
   */
  start(name: string, options?: SpanOptions & { parent?: TraceContext | undefined; ids?: SpanIds }): Span;
}

/** Decides whether a span is recorded, by its parent's decision and its trace. */
export type Sampler = (parent: TraceContext | undefined, traceId: string) => boolean;

/**
 * @param options.record takes what has ended; must neither throw nor wait
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
    // Setting the system's clock makes no span shorter or longer.
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

/** Does the work within a span that ends with it; without a span it only does the work. */
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

/** A status or a name, and never a message: that may quote what a tenant has sent. */
function errorType(error: unknown): string {
  if (typeof error === "string") return error;
  if (!(error instanceof Error)) return "error";
  return "status" in error && typeof error.status === "number" ? String(error.status) : error.name;
}
