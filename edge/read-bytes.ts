import { HttpError } from "./http-error.ts";

/** The most bytes that a request's body may have (design.md, section 5). */
export const MAX_BODY_BYTES = 1024 * 1024;

/**
 * Reads a request's body as it was sent.
 *
 * @param limit bytes, judged by `content-length` before anything is read and by what arrives while it is read
 * @throws HttpError 413 over the limit, 400 where the body breaks off
 */
export async function readBytes(request: Request, limit: number = MAX_BODY_BYTES): Promise<Uint8Array> {
  const declared = request.headers.get("content-length");
  if (declared !== null && Number(declared) > limit) throw tooLarge(limit);
  const bytes = declared === null ? await readCounted(request, limit) : await readWhole(request);
  if (bytes.byteLength > limit) throw tooLarge(limit);
  return bytes;
}

/** The server has framed the body by its declared length, so it can be taken in one piece, which is the fast way. */
async function readWhole(request: Request): Promise<Uint8Array> {
  try {
    return new Uint8Array(await request.arrayBuffer());
  } catch (cause) {
    throw brokenOff(cause);
  }
}

async function readCounted(request: Request, limit: number): Promise<Uint8Array> {
  const reader = request.body?.getReader();
  const chunks: Uint8Array[] = [];
  let size = 0;
  while (reader !== undefined) {
    const { done, value } = await reader.read().catch((cause: unknown) => {
      throw brokenOff(cause);
    });
    if (done) break;
    size += value.byteLength;
    if (size > limit) {
      // The rest is not wanted; a reader that fails to cancel has nothing left to give back.
      await reader.cancel().catch(() => undefined);
      throw tooLarge(limit);
    }
    chunks.push(value);
  }
  return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks, size);
}

function tooLarge(limit: number): HttpError {
  return new HttpError(413, `body: is larger than ${limit} bytes`);
}

function brokenOff(cause: unknown): HttpError {
  return new HttpError(400, "body: broke off before its end", { cause });
}
