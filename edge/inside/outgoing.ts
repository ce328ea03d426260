import { Buffer } from "node:buffer";
import { Readable } from "node:stream";
import { createDeferred, type Deferred } from "../../crds/waits.ts";
import { encodeFrame, encodeHeader, FrameError, type FrameType, frameType, HEADER_BYTES } from "./frames.ts";

/** The size of a batch: what an exec sends as one message. */
const BATCH_BYTES = 64 * 1024;

/** A DATA frame is not worth its header if less than this is left of a batch. */
const MIN_ROOM_BYTES = 4096;

/** How many bytes of DATA each side may send on a stream before it receives CREDIT. */
export const WINDOW_BYTES = 512 * 1024;

/** Sends the frames of a connection. Holds no DATA: it takes DATA from the senders when the connection takes more. */
export interface Outgoing {
  /** The bytes to send. */
  readonly readable: Readable;
  /** Sends a frame before all DATA that waits. */
  send(type: FrameType, stream: number, payload?: Uint8Array): void;
  /** Bytes of frames that wait, beside DATA. */
  readonly waitingBytes: number;
  /** Drops the frames of a stream if none of them has been sent. Otherwise returns false, and drops nothing. */
  drop(stream: number): boolean;
  createSender(stream: number): DataSender;
}

/** Sends the DATA of one stream. */
export interface DataSender {
  /**
   * Sends bytes at the pace of the credit. Resolves when the bytes are in a batch, or when the sender is stopped. They
   * must not change before. One call at a time.
   */
  send(bytes: Uint8Array): Promise<void>;
  /** @throws FrameError if the program gives more than it has got */
  addCredit(bytes: number): void;
  /** Drops bytes that wait. */
  stop(): void;
}

interface Pending {
  readonly stream: number;
  credit: number;
  bytes: Uint8Array;
  taken: Deferred<void> | undefined;
}

/**
 * Creates the sending side of a connection. All frames that are ready go into one chunk of up to 64 KiB. Streams with
 * DATA take turns.
 */
export function createOutgoing(): Outgoing {
  let frames: { readonly stream: number; readonly type: FrameType; readonly bytes: Buffer }[] = [];
  let waitingBytes = 0;
  /** Senders with bytes and credit, in the order of their turns. */
  const ready = new Set<Pending>();
  let isWanted = false;
  let isScheduled = false;
  const readable = new Readable({
    highWaterMark: BATCH_BYTES,
    read() {
      isWanted = true;
      flush();
    },
  });

  function flush(): void {
    isScheduled = false;
    if (!isWanted || readable.destroyed) return;
    const batch = nextBatch();
    if (batch === undefined) return;
    isWanted = false;
    readable.push(batch);
  }

  /** Frames that are queued in the same microtask go into the same batch. */
  function schedule(): void {
    if (!isWanted || isScheduled) return;
    isScheduled = true;
    queueMicrotask(flush);
  }

  function nextBatch(): Buffer | undefined {
    const parts: Uint8Array[] = [];
    let bytes = 0;
    let taken = 0;
    for (const frame of frames) {
      if (bytes > 0 && bytes + frame.bytes.length > BATCH_BYTES) break;
      parts.push(frame.bytes);
      bytes += frame.bytes.length;
      taken += 1;
    }
    frames.splice(0, taken);
    waitingBytes -= bytes;
    for (const pending of ready) {
      const room = BATCH_BYTES - bytes - HEADER_BYTES;
      if (room < MIN_ROOM_BYTES) break;
      // It goes to the end of the set if bytes are left, so the loop comes back to it.
      ready.delete(pending);
      const part = pending.bytes.subarray(0, Math.min(pending.credit, room));
      parts.push(encodeHeader(frameType.data, pending.stream, part.length), part);
      bytes += HEADER_BYTES + part.length;
      pending.credit -= part.length;
      pending.bytes = pending.bytes.subarray(part.length);
      if (pending.bytes.length === 0) pending.taken?.resolve();
      else if (pending.credit > 0) ready.add(pending);
    }
    const [first] = parts;
    if (first === undefined) return undefined;
    return parts.length === 1 ? (first as Buffer) : Buffer.concat(parts, bytes);
  }

  return {
    readable,
    send(type, stream, payload) {
      const bytes = encodeFrame(type, stream, payload);
      frames.push({ stream, type, bytes });
      waitingBytes += bytes.length;
      schedule();
    },
    get waitingBytes() {
      return waitingBytes;
    },
    drop(stream) {
      // The first frame of a stream is its CALL.
      if (!frames.some((frame) => frame.stream === stream && frame.type === frameType.call)) return false;
      frames = frames.filter((frame) => frame.stream !== stream);
      waitingBytes = frames.reduce((sum, frame) => sum + frame.bytes.length, 0);
      return true;
    },
    createSender(stream) {
      const pending: Pending = { stream, credit: WINDOW_BYTES, bytes: Buffer.alloc(0), taken: undefined };
      let isStopped = false;
      function update(): void {
        if (isStopped || pending.bytes.length === 0 || pending.credit === 0) return;
        ready.add(pending);
        schedule();
      }
      return {
        async send(bytes) {
          if (isStopped || bytes.length === 0) return;
          pending.bytes = bytes;
          pending.taken = createDeferred();
          update();
          await pending.taken.promise;
        },
        addCredit(bytes) {
          pending.credit += bytes;
          if (pending.credit > WINDOW_BYTES) throw new FrameError("Cannot use more credit than bytes were sent");
          update();
        },
        stop() {
          isStopped = true;
          ready.delete(pending);
          pending.bytes = Buffer.alloc(0);
          pending.taken?.resolve();
        },
      };
    },
  };
}
