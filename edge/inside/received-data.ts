import { Buffer } from "node:buffer";
import { createDeferred, type Deferred } from "../../crds/waits.ts";

/** The size of the buffers that small payloads are collected in. */
const BUFFER_BYTES = 16 * 1024;

/** In a buffer, the length of a payload precedes it. */
const LENGTH_BYTES = 2;

/** A view may hold this many times its own size of memory. */
const MAX_HELD = 4;

/** The DATA of a stream, from its arrival until the caller reads it. */
export interface ReceivedData {
  /** One chunk for each payload, since calls may give the limits of payloads a meaning. Can be iterated once. */
  readonly data: AsyncIterable<Uint8Array>;
  push(payload: Buffer): void;
  /** After the data that arrived, the iteration ends. */
  end(): void;
  /** After the data that arrived, the iteration throws the error. */
  fail(error: unknown): void;
  /** Drops the data that arrived. */
  discard(): void;
}

/**
 * Creates the receiving side of a stream. Its memory is at most four times the bytes that were pushed and are not read
 * yet, and a constant, whatever the sizes of the payloads and of the chunks that they are views of.
 *
 * @param on.read called with the number of bytes that the caller has read
 * @param on.leave called when the caller stops reading before the end
 */
export function createReceivedData(on: { read(bytes: number): void; leave(): void }): ReceivedData {
  const queue = createPayloadQueue();
  const waiting: Deferred<IteratorResult<Uint8Array>>[] = [];
  let ending: { readonly error?: unknown } | undefined;

  function conclude(next: { readonly error?: unknown }): void {
    if (ending !== undefined) return;
    ending = next;
    for (const { resolve, reject } of waiting.splice(0)) {
      if ("error" in next) reject(next.error);
      else resolve({ value: undefined, done: true });
    }
  }

  const iterator: AsyncIterator<Uint8Array> = {
    next() {
      const value = queue.shift();
      if (value !== undefined) {
        on.read(value.length);
        return Promise.resolve({ value, done: false });
      }
      if (ending !== undefined) {
        return "error" in ending ? Promise.reject(ending.error) : Promise.resolve({ value: undefined, done: true });
      }
      const arrival = createDeferred<IteratorResult<Uint8Array>>();
      waiting.push(arrival);
      return arrival.promise;
    },
    async return() {
      if (ending === undefined) on.leave();
      queue.clear();
      conclude({});
      return { value: undefined, done: true };
    },
  };

  return {
    data: { [Symbol.asyncIterator]: () => iterator },
    push(payload) {
      if (ending !== undefined) return;
      const reader = waiting.shift();
      if (reader === undefined) {
        queue.push(payload);
        return;
      }
      on.read(payload.length);
      reader.resolve({ value: isWorthItsMemory(payload) ? payload : Buffer.from(payload), done: false });
    },
    end: () => conclude({}),
    fail: (error) => conclude({ error }),
    discard: queue.clear,
  };
}

function isWorthItsMemory(payload: Buffer): boolean {
  return payload.length * MAX_HELD >= payload.buffer.byteLength;
}

interface PayloadQueue {
  push(payload: Buffer): void;
  shift(): Buffer | undefined;
  clear(): void;
}

/** Small payloads are copied into shared buffers: an object for each byte would take a hundred times the memory. */
function createPayloadQueue(): PayloadQueue {
  /** A large payload, or a buffer of small ones. */
  const entries: { readonly bytes: Buffer; readonly isBuffer: boolean; filled: number; read: number }[] = [];

  return {
    push(payload) {
      if (payload.length >= BUFFER_BYTES / 2) {
        const bytes = isWorthItsMemory(payload) ? payload : Buffer.from(payload);
        entries.push({ bytes, isBuffer: false, filled: bytes.length, read: 0 });
        return;
      }
      const size = LENGTH_BYTES + payload.length;
      let last = entries.at(-1);
      if (!last?.isBuffer || last.filled + size > BUFFER_BYTES) {
        last = { bytes: Buffer.allocUnsafeSlow(BUFFER_BYTES), isBuffer: true, filled: 0, read: 0 };
        entries.push(last);
      }
      last.bytes.writeUInt16BE(payload.length, last.filled);
      payload.copy(last.bytes, last.filled + LENGTH_BYTES);
      last.filled += size;
    },
    shift() {
      const first = entries[0];
      if (first === undefined) return undefined;
      if (!first.isBuffer) {
        entries.shift();
        return first.bytes;
      }
      const begin = first.read + LENGTH_BYTES;
      const end = begin + first.bytes.readUInt16BE(first.read);
      first.read = end;
      if (first.read === first.filled) entries.shift();
      return first.bytes.subarray(begin, end);
    },
    clear() {
      entries.length = 0;
    },
  };
}
