import { type Clock, systemClock } from "../../crds/client/clock.ts";
import { startDeadline, whenAborted } from "../../crds/waits.ts";
import { HttpError } from "./http-error.ts";

/** How long a streamed body may take. */
export const UPLOAD_LIMIT_MS = 15 * 60_000;
/** How long it may pause. */
const SILENCE_LIMIT_MS = 60_000;

/** A request's body as it arrives. */
export interface Upload {
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Ends the reading, also of what is waited for; the rest is not wanted. */
  close(): void;
}

/**
 * Reads a request's body piece by piece, for what is too large to be held: at its reader's pace, and never more than
 * `limit` bytes of it.
 *
 * @param options.clientGone ends the reading
 * @throws HttpError 413 over the limit, at once where that was declared; from `chunks` 400 where the body breaks off,
 *   408 where it pauses for a minute or takes 15, 499 when the client goes
 */
export function readUpload(
  request: Request,
  options: { limit: number; clientGone: AbortSignal | undefined; clock?: Clock },
): Upload {
  const { limit, clientGone, clock = systemClock } = options;
  const declared = request.headers.get("content-length");
  if (declared !== null && Number(declared) > limit) throw tooLarge(limit);
  const reader = request.body?.getReader();
  const closed = new AbortController();

  async function next(overall: AbortSignal): Promise<Uint8Array | undefined> {
    const silence = startDeadline(SILENCE_LIMIT_MS, clock);
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
        ? `has not arrived whole within ${UPLOAD_LIMIT_MS / 60_000} minutes`
        : `paused for more than ${SILENCE_LIMIT_MS / 1000} s`;
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
      // A reader that fails to cancel has nothing left to give back.
      void reader?.cancel().catch(() => undefined);
    },
  };
}

function tooLarge(limit: number): HttpError {
  return new HttpError(413, `body: is larger than ${limit} bytes`);
}
