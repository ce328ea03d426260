import { HttpError } from "../../http/http-error.ts";

/** A message of at most so many bytes is taken. */
export const MAX_MESSAGE_BYTES = 4 * 1024 * 1024;

const HEAD_BYTES = 5;
const FIRST_BYTES = 4096;
const flag = { message: 0, compressed: 1, endStream: 2 } as const;

/** A message of a stream: a byte of flags, its length in 4 bytes, and its JSON. */
export function messageEnvelope(message: object): Uint8Array {
  return envelope(flag.message, message);
}

/** The last message of a stream, with what it has failed for, if it has. */
export function endEnvelope(error?: object): Uint8Array {
  return envelope(flag.endStream, error === undefined ? {} : { error });
}

function envelope(flags: number, content: object): Uint8Array {
  const json = Buffer.from(JSON.stringify(content));
  const bytes = Buffer.allocUnsafe(HEAD_BYTES + json.length);
  bytes[0] = flags;
  bytes.writeUInt32BE(json.length, 1);
  json.copy(bytes, HEAD_BYTES);
  return bytes;
}

/**
 * Reads the messages of a stream, in pieces of any size. Memory is taken as a message arrives, not as it announces.
 *
 * Follows https://connectrpc.com/docs/protocol#streaming-rpcs
 *
 * @throws HttpError 400 for what is no message, 413 for one over 4 MiB, 501 for a compressed one
 */
export async function* readEnvelopes(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  let buffer = Buffer.allocUnsafe(FIRST_BYTES);
  let filled = 0;
  let wanted = HEAD_BYTES;
  for await (const piece of pieces) {
    for (let at = 0; at < piece.length; ) {
      const end = Math.min(piece.length, at + wanted - filled);
      if (filled + end - at > buffer.length) {
        const larger = Buffer.allocUnsafe(Math.max(filled + end - at, Math.min(wanted, 2 * buffer.length)));
        buffer.copy(larger, 0, 0, filled);
        buffer = larger;
      }
      buffer.set(piece.subarray(at, end), filled);
      filled += end - at;
      at = end;
      if (filled === HEAD_BYTES && wanted === HEAD_BYTES) wanted = HEAD_BYTES + lengthOf(buffer);
      if (filled < wanted) continue;
      yield Uint8Array.from(buffer.subarray(HEAD_BYTES, filled));
      filled = 0;
      wanted = HEAD_BYTES;
    }
  }
  if (filled > 0) throw new HttpError(400, "body: ended within a message");
}

function lengthOf(head: Buffer): number {
  const flags = head.readUInt8(0);
  if (flags === flag.compressed)
    throw new HttpError(501, "body: send messages without compression", { expected: true });
  if (flags !== flag.message) throw new HttpError(400, `body: a message has the unknown flags ${flags}`);
  const length = head.readUInt32BE(1);
  if (length > MAX_MESSAGE_BYTES)
    throw new HttpError(413, `body: a message of ${length} bytes is larger than ${MAX_MESSAGE_BYTES} bytes`);
  return length;
}
