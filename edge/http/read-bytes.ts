import { type Clock, systemClock } from "../../crds/client/clock.ts";
import { createDeferred, onAbort } from "../../crds/waits.ts";
import { HttpError } from "./http-error.ts";
import type { RoutedRequest } from "./router.ts";

/** Maximum size of a request's body. */
const MAX_BODY_BYTES = 1024 * 1024;
/** Time limit of a body, from the first read to its last byte. */
const LIMIT_MS = 10_000;

/**
 * Reads a request's body as sent.
 *
 * @param options.limit bytes, checked against `content-length` before reading and against the received bytes; @default
 * 1 MiB
 * @param options.signal ends the reading
 * @param options.onBytes is called with the number of bytes of each chunk
 * @throws HttpError 413 over the limit, 400 if the body breaks off, 408 if it is not complete after 10 s; the signal's
 * reason
 */
export async function readBytes(
  request: Request,
  options: { limit?: number; signal?: AbortSignal; onBytes?: (count: number) => void; clock?: Clock } = {},
): Promise<Uint8Array> {
  const { limit = MAX_BODY_BYTES, signal, onBytes, clock = systemClock } = options;
  signal?.throwIfAborted();
  const declared = request.headers.get("content-length");
  if (declared !== null && Number(declared) > limit) throw tooLarge(limit);
  const end = createDeferred<never>();
  const cancel = clock.after(LIMIT_MS, () => end.reject(tooSlow()));
  const ignoreAbort = onAbort(signal, () => end.reject(signal?.reason));
  try {
    const bytes =
      declared === null || onBytes !== undefined
        ? await readCounted(request, { limit, onBytes, end: end.promise })
        : await readWhole(request, end.promise);
    (request as Partial<RoutedRequest>).onReceived?.(bytes.byteLength);
    if (bytes.byteLength > limit) throw tooLarge(limit);
    return bytes;
  } finally {
    cancel();
    ignoreAbort();
  }
}

/** The server has framed the body by its declared length, so it can be read at once, which is faster. */
async function readWhole(request: Request, end: Promise<never>): Promise<Uint8Array> {
  const whole = request.arrayBuffer().catch((cause: unknown) => {
    throw brokenOff(cause);
  });
  return new Uint8Array(await Promise.race([whole, end]));
}

async function readCounted(
  request: Request,
  options: { limit: number; onBytes: ((count: number) => void) | undefined; end: Promise<never> },
): Promise<Uint8Array> {
  const { limit, onBytes, end } = options;
  const reader = request.body?.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    while (reader !== undefined) {
      const read = reader.read().catch((cause: unknown) => {
        throw brokenOff(cause);
      });
      const { done, value } = await Promise.race([read, end]);
      if (done) break;
      size += value.byteLength;
      if (size > limit) throw tooLarge(limit);
      onBytes?.(value.byteLength);
      chunks.push(value);
    }
  } catch (error) {
    // The rest is not needed; a reader that fails to cancel has nothing to release.
    void reader?.cancel().catch(() => undefined);
    throw error;
  }
  return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, size);
}

function tooLarge(limit: number): HttpError {
  return new HttpError(413, `body: is larger than ${limit} bytes`);
}

function tooSlow(): HttpError {
  return new HttpError(408, `body: did not arrive completely within ${LIMIT_MS / 1000} s`, {
    headers: { connection: "close" },
  });
}

function brokenOff(cause: unknown): HttpError {
  return new HttpError(400, "body: broke off before its end", { cause });
}
