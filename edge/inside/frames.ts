import { Buffer } from "node:buffer";

/** The type byte of a frame. */
export const frameType = {
  hello: 0,
  call: 1,
  answer: 2,
  error: 3,
  data: 4,
  end: 5,
  credit: 6,
  cancel: 7,
  ping: 8,
} as const;

export type FrameType = (typeof frameType)[keyof typeof frameType];

const LAST_TYPE = frameType.ping;

/** Length of the payload (4 bytes, big endian), type (1 byte), stream (4 bytes, big endian). */
export const HEADER_BYTES = 9;

/** A call can have long arguments. DATA comes in far smaller frames. */
export const MAX_PAYLOAD_BYTES = 1024 * 1024;

export interface Frame {
  readonly type: FrameType;
  /** 0 for frames of the whole connection. */
  readonly stream: number;
  /** May share its memory with the chunk that it came in. */
  readonly payload: Buffer;
}

/** The other end sent bytes that are not frames of the protocol. */
export class FrameError extends Error {
  override readonly name = "FrameError";
}

/**
 * The bytes of a frame.
 *
 * @throws RangeError if the payload is longer than a frame may be
 */
export function encodeFrame(type: FrameType, stream: number, payload?: Uint8Array): Buffer {
  const length = payload?.length ?? 0;
  const frame = Buffer.allocUnsafe(HEADER_BYTES + length);
  writeHeader(frame, { type, stream, length });
  if (payload !== undefined) frame.set(payload, HEADER_BYTES);
  return frame;
}

/** The header alone, for a payload that is appended later. */
export function encodeHeader(type: FrameType, stream: number, length: number): Buffer {
  const header = Buffer.allocUnsafe(HEADER_BYTES);
  writeHeader(header, { type, stream, length });
  return header;
}

function writeHeader(target: Buffer, header: { type: FrameType; stream: number; length: number }): void {
  if (header.length > MAX_PAYLOAD_BYTES)
    throw new RangeError(`Cannot send a frame of ${header.length} bytes: the limit is ${MAX_PAYLOAD_BYTES}`);
  target.writeUInt32BE(header.length, 0);
  target[4] = header.type;
  target.writeUInt32BE(header.stream, 5);
}

/**
 * Creates a function that takes the bytes of a connection, in chunks of any size, and calls back for each frame.
 *
 * A payload that lies in one chunk is a view of the chunk. A payload that spans chunks is copied once.
 *
 * @returns throws FrameError for a payload that is too long or an unknown type, before it waits for the payload
 */
export function createFrameDecoder(onFrame: (frame: Frame) => void): (chunk: Buffer) => void {
  const header = Buffer.allocUnsafeSlow(HEADER_BYTES);
  let headerBytes = 0;
  /** Of the frame whose payload spans chunks. */
  let partial: Frame | undefined;
  let partialBytes = 0;

  return function decode(chunk) {
    let at = 0;
    while (at < chunk.length) {
      if (partial !== undefined) {
        const { payload } = partial;
        const copied = chunk.copy(payload, partialBytes, at, at + payload.length - partialBytes);
        partialBytes += copied;
        at += copied;
        if (partialBytes < payload.length) return;
        const frame = partial;
        partial = undefined;
        onFrame(frame);
        continue;
      }
      let source = chunk;
      let offset = at;
      if (headerBytes > 0 || chunk.length - at < HEADER_BYTES) {
        const copied = chunk.copy(header, headerBytes, at, at + HEADER_BYTES - headerBytes);
        headerBytes += copied;
        at += copied;
        if (headerBytes < HEADER_BYTES) return;
        headerBytes = 0;
        source = header;
        offset = 0;
      } else at += HEADER_BYTES;
      const length = source.readUInt32BE(offset);
      const type = source.readUInt8(offset + 4);
      const stream = source.readUInt32BE(offset + 5);
      if (length > MAX_PAYLOAD_BYTES)
        throw new FrameError(`Cannot read a frame of ${length} bytes: the limit is ${MAX_PAYLOAD_BYTES}`);
      if (type > LAST_TYPE) throw new FrameError(`Cannot read a frame of the unknown type ${type}`);
      if (chunk.length - at >= length) {
        const payload = chunk.subarray(at, at + length);
        at += length;
        onFrame({ type: type as FrameType, stream, payload });
      } else {
        partial = { type: type as FrameType, stream, payload: Buffer.allocUnsafeSlow(length) };
        partialBytes = 0;
      }
    }
  };
}
