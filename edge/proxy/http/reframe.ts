import type { BodyDecoder } from "./body-decoder.ts";
import type { BodyFraming } from "./body-framing.ts";
import { trailerFor } from "./forward-head.ts";
import type { Field } from "./message-head.ts";

/** Smaller chunks are sent as one. */
const GATHER_BYTES = 64 * 1024;
const CRLF = Buffer.from("\r\n");

/**
 * Removes the framing of a body's data in a chunk, and adds the new one; all data as one chunk, since many small ones
 * cost their reader more than their sender.
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

/** Writes chunks, small ones combined: each write is a system call. */
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
