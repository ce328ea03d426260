import type { BodyDecoder } from "./body-decoder.ts";
import type { BodyFraming } from "./body-framing.ts";
import { trailerFor } from "./forward-head.ts";
import type { Field } from "./message-head.ts";

/** Pieces smaller than this go out in one. */
const GATHER_BYTES = 64 * 1024;
const CRLF = Buffer.from("\r\n");

/**
 * Takes what of a chunk is a body's data out of its framing, and puts it into the one in which it goes on; all of it
 * into one chunk, since many small ones cost their reader more than their sender.
 *
 * @throws MessageError
 */
export function reframe(
  body: BodyDecoder,
  chunk: Buffer,
  framing: BodyFraming,
  parts: Buffer[],
): { taken: number; bytes: number } {
  const data: Buffer[] = [];
  let bytes = 0;
  const taken = body.decode(chunk, (piece) => {
    data.push(piece);
    bytes += piece.length;
  });
  if (framing.kind !== "chunked") parts.push(...data);
  else {
    if (bytes > 0) parts.push(Buffer.from(`${bytes.toString(16)}\r\n`, "latin1"), ...data, CRLF);
    if (body.isDone) parts.push(endOfChunks(body.trailer));
  }
  return { taken, bytes };
}

export function endOfChunks(trailer: readonly Field[]): Buffer {
  return Buffer.from(`0\r\n${trailerFor(trailer)}`, "latin1");
}

/** Writes pieces, small ones in one: each write is a call to the system. */
export function writeAll(to: { write(data: Buffer): boolean }, parts: readonly Buffer[]): boolean {
  let accepted = true;
  let small: Buffer[] = [];
  let bytes = 0;
  const flush = (): void => {
    if (small.length > 0) accepted = to.write(small.length === 1 ? (small[0] as Buffer) : Buffer.concat(small, bytes));
    small = [];
    bytes = 0;
  };
  for (const part of parts) {
    if (bytes + part.length > GATHER_BYTES) flush();
    small.push(part);
    bytes += part.length;
  }
  flush();
  return accepted;
}
