import { createHash, randomBytes } from "node:crypto";

/** The ids of a span and its trace: the contents of the header `traceparent`. */
export interface TraceContext {
  /** 32 lower-case hexadecimal digits, not all zero. */
  readonly traceId: string;
  /** 16 lower-case hexadecimal digits, not all zero. */
  readonly spanId: string;
  /** Whether the trace is recorded. */
  readonly sampled: boolean;
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const MOST_CHARACTERS = 256;

/**
 * Reads the header `traceparent` of a request; undefined if it is not valid, so that a new trace begins. Later versions
 * than 00 are read as version 00.
 *
 * https://www.w3.org/TR/trace-context/#traceparent-header
 */
export function parseTraceparent(header: string | null | undefined): TraceContext | undefined {
  if (header == null || header.length > MOST_CHARACTERS) return undefined;
  const [, version, traceId = "", spanId = "", flags = "", tail] = TRACEPARENT.exec(header) ?? [];
  if (version === undefined || version === "ff" || (version === "00" && tail !== undefined)) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, sampled: (Number.parseInt(flags, 16) & 1) === 1 };
}

/** The value of the header, and of a claim's annotation. */
export function formatTraceparent({ traceId, spanId, sampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${sampled ? "01" : "00"}`;
}

/**
 * Reads a claim's annotation exactly as {@link formatTraceparent} writes it: anyone who may write claims can set it.
 */
export function parseCarried(text: string | undefined): TraceContext | undefined {
  const context = parseTraceparent(text);
  return context !== undefined && formatTraceparent(context) === text ? context : undefined;
}

export function newTraceId(): string {
  return randomBytes(16).toString("hex");
}

export function newSpanId(): string {
  return randomBytes(8).toString("hex");
}

/**
 * The trace of a claim's release. A deletion has no context, so the edge, the operator and its successor derive the ids
 * from the claim's uid.
 */
export function releaseTrace(claimUid: string): { traceId: string; spanId: string } {
  const digits = createHash("sha256").update(`release ${claimUid}`).digest("hex");
  return { traceId: digits.slice(0, 32), spanId: digits.slice(32, 48) };
}
