import { type Clock, systemClock } from "../../crds/client/clock.ts";
import { startDeadline, whenAborted } from "../../crds/waits.ts";
import { HttpError } from "./http-error.ts";
import type { RoutedRequest } from "./router.ts";

/** Time limit of a streamed body. */
export const UPLOAD_LIMIT_MS = 15 * 60_000;
/** Maximum pause of it, unless its reader takes longer ones. */
const SILENCE_LIMIT_MS = 60_000;

/** A request's body as it arrives. */
export interface Upload {
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Ends the reading, including pending reads; the rest is not needed. */
  close(): void;
}

/**
 * Reads a request's body chunk by chunk, for bodies too large for memory: at its reader's pace, and never more than
 * `limit` bytes.
 *
 * @param options.clientGone ends the reading
 * @param options.silenceMs the longest pause. @default a minute
 * @throws HttpError 413 over the limit, at once if declared; from `chunks` 400 if the body breaks off, 408 if it pauses
 * for too long or takes 15 minutes, 499 when the client disconnects
 */
export function readUpload(
  request: Request,
  options: { limit: number; clientGone: AbortSignal | undefined; silenceMs?: number; clock?: Clock },
): Upload {
  const { limit, clientGone, silenceMs = SILENCE_LIMIT_MS, clock = systemClock } = options;
  const declared = request.headers.get("content-length");
  if (declared !== null && Number(declared) > limit) throw tooLarge(limit);
  const reader = request.body?.getReader();
  const closed = new AbortController();

  async function next(overall: AbortSignal): Promise<Uint8Array | undefined> {
    const silence = startDeadline(silenceMs, clock);
    const stopped = whenAborted([silence.signal, overall, clientGone, closed.signal]);
    try {
      const read = reader?.read().catch((cause: unknown) => {
        throw new HttpError(400, "body: broke off before its end", { cause });
      });
      const result = await Promise.race([read ?? { done: true as const, value: undefined }, stopped.promise]);
      if (clientGone?.aborted === true) throw new HttpError(499, "the client went away");
      if (closed.signal.aborted) return undefined;
      if (result !== undefined) return result.done ? undefined : result.value;
      const why = overall.aborted
        ? `did not arrive completely within ${UPLOAD_LIMIT_MS / 60_000} minutes`
        : `paused for more than ${silenceMs / 1000} s`;
      throw new HttpError(408, `body: ${why}`, { headers: { connection: "close" } });
    } finally {
      stopped.close();
      silence.close();
    }
  }

  async function* chunks(): AsyncGenerator<Uint8Array> {
    const overall = startDeadline(UPLOAD_LIMIT_MS, clock);
    let bytes = 0;
    try {
      for (let chunk = await next(overall.signal); chunk !== undefined; chunk = await next(overall.signal)) {
        bytes += chunk.byteLength;
        (request as Partial<RoutedRequest>).onReceived?.(chunk.byteLength);
        if (bytes > limit) throw tooLarge(limit);
        yield chunk;
      }
    } finally {
      overall.close();
    }
  }

  return {
    chunks: chunks(),
    close() {
      closed.abort();
      // A reader that fails to cancel has nothing to release.
      void reader?.cancel().catch(() => undefined);
    },
  };
}

function tooLarge(limit: number): HttpError {
  return new HttpError(413, `body: is larger than ${limit} bytes`);
}
