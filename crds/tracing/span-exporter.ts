import { createBackoff } from "../client/backoff.ts";
import { type Clock, systemClock } from "../client/clock.ts";
import { retryAfter } from "../client/transport.ts";
import { parseForeignJson } from "../foreign-json.ts";
import type { Log } from "../log.ts";
import { createPause, TimeLimitError, within, withTimeLimit } from "../waits.ts";
import { exportRequest } from "./otlp-json.ts";
import type { Attributes, EndedSpan } from "./tracer.ts";

/** Sends spans to a collector, in batches. */
export interface SpanExporter {
  /** Queues a span, or drops and counts it if too many wait. Never throws and never waits. */
  add(span: EndedSpan): void;
  /** Exports the waiting spans, for at most `limitMs`, and drops the rest. */
  close(options: { limitMs: number }): Promise<void>;
  /** How many spans the collector has accepted, and how many were dropped. */
  readonly counts: { readonly exported: number; readonly dropped: number };
}

/** The defaults of OpenTelemetry's batch processor. */
const MOST_WAITING = 2048;
const MOST_IN_BATCH = 512;
const EXPORT_LIMIT_MS = 10_000;

const MOST_TRIES = 5;
const MOST_PAUSE_MS = 30_000;
const WARN_EVERY_MS = 300_000;
const MOST_ANSWER_BYTES = 64 * 1024;

/** https://opentelemetry.io/docs/specs/otlp/#failures-1 */
const RETRYABLE = [429, 502, 503, 504];

/**
 * @param options.delayMs milliseconds for which spans are collected
 * @param options.headers of each request to the collector
 */
export function createSpanExporter(options: {
  url: string;
  headers: Readonly<Record<string, string>>;
  resource: Attributes;
  delayMs: number;
  log: Log;
  fetch?: typeof fetch;
  clock?: Clock;
}): SpanExporter {
  const { url, headers, resource, delayMs, log, fetch: send = fetch, clock = systemClock } = options;
  const waiting: EndedSpan[] = [];
  const hardStop = new AbortController();
  const pause = createPause(clock);
  const counts = { exported: 0, dropped: 0 };
  let cancelTimer: (() => void) | undefined;
  let sending: Promise<void> | undefined;
  let isClosing = false;
  let warnedAt = Number.NEGATIVE_INFINITY;

  function schedule(ms: number): void {
    cancelTimer?.();
    cancelTimer = clock.after(ms, () => {
      cancelTimer = undefined;
      sending = exportAll().finally(() => {
        sending = undefined;
        if (waiting.length > 0 && !isClosing) schedule(delayMs);
      });
    });
  }

  /** Exports until less than a batch waits; at the end, until no span waits. */
  async function exportAll(): Promise<void> {
    do {
      // Spans in flight count as waiting.
      const batch = waiting.slice(0, MOST_IN_BATCH);
      const taken = await exportBatch(batch);
      waiting.splice(0, batch.length);
      counts.exported += taken;
      counts.dropped += batch.length - taken;
    } while (waiting.length >= (isClosing ? 1 : MOST_IN_BATCH));
  }

  /** Tries until the collector's answer is final. @returns how many spans it has accepted */
  async function exportBatch(batch: readonly EndedSpan[]): Promise<number> {
    const backoff = createBackoff({ initialMs: 1000, maxMs: MOST_PAUSE_MS });
    for (let tries = 1; ; tries += 1) {
      const { problem, rejected = batch.length, retryAfterMs } = await exportOnce(batch);
      if (problem !== undefined) warn(problem);
      if (retryAfterMs === undefined || tries >= MOST_TRIES || isClosing) return batch.length - rejected;
      try {
        await pause.wait(Math.min(MOST_PAUSE_MS, Math.max(retryAfterMs, backoff.next())), hardStop.signal);
      } catch {
        return 0;
      }
    }
  }

  /** @returns `retryAfterMs` if a retry may help */
  async function exportOnce(
    batch: readonly EndedSpan[],
  ): Promise<{ problem?: string; rejected?: number; retryAfterMs?: number }> {
    try {
      const limit = { what: "the collector's answer", ms: EXPORT_LIMIT_MS, clock, signal: hardStop.signal };
      const { status, asked, text } = await withTimeLimit(limit, async (signal) => {
        const body = exportRequest(batch, resource);
        // A redirect could send the headers to another server.
        const response = await send(url, { method: "POST", headers, body, signal, redirect: "manual" });
        const asked = response.headers.get("retry-after") ?? undefined;
        return { status: response.status, asked, text: await readText(response) };
      });
      if (status >= 200 && status <= 299) return rejectedBy(text);
      const problem = `the collector answers with status ${status}`;
      if (!RETRYABLE.includes(status)) return { problem };
      return { problem, retryAfterMs: retryAfter(asked, { now: clock.now() }) ?? 0 };
    } catch (error) {
      if (hardStop.signal.aborted) return {};
      const isLate = error instanceof TimeLimitError;
      return {
        problem: isLate ? error.message : `the collector cannot be reached: ${reasonOf(error)}`,
        retryAfterMs: 0,
      };
    }
  }

  function warn(problem: string): void {
    if (clock.now() - warnedAt < WARN_EVERY_MS) return;
    warnedAt = clock.now();
    // Only the host: the path and the query have a key for some collectors.
    log.warn({ collector: new URL(url).host, problem, dropped: counts.dropped }, "traces are not exported");
  }

  return {
    counts,
    add(span) {
      if (isClosing || waiting.length >= MOST_WAITING) {
        counts.dropped += 1;
        if (!isClosing) warn("more spans end than the collector takes");
        return;
      }
      waiting.push(span);
      if (sending !== undefined) return;
      if (waiting.length === MOST_IN_BATCH) schedule(0);
      else if (cancelTimer === undefined) schedule(delayMs);
    },
    async close({ limitMs }) {
      isClosing = true;
      cancelTimer?.();
      pause.end();
      const done = (async () => {
        await sending;
        if (waiting.length > 0) await exportAll();
      })();
      const isDone = await within(done, limitMs);
      hardStop.abort(new Error("the process stops"));
      if (!isDone) await done;
    },
  };
}

/** Reads the answer to its end, so that the connection can be used again, but at most {@link MOST_ANSWER_BYTES}. */
async function readText({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    size += chunk.byteLength;
    if (size > MOST_ANSWER_BYTES) throw new Error("its answer is too large");
    chunks.push(chunk);
  }
  return new TextDecoder().decode(Buffer.concat(chunks));
}

/** How many spans the collector rejected: https://opentelemetry.io/docs/specs/otlp/#partial-success-1 */
function rejectedBy(text: string): { problem?: string; rejected: number } {
  let rejected = 0;
  try {
    const answer = parseForeignJson(text) as { partialSuccess?: { rejectedSpans?: unknown } } | null;
    rejected = Number(answer?.partialSuccess?.rejectedSpans ?? 0);
  } catch {
    // The answer has another media type; the status counts.
  }
  return rejected > 0 ? { problem: `the collector refuses ${rejected} spans of a batch`, rejected } : { rejected: 0 };
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}
