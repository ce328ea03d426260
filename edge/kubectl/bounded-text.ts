/** Text that arrives in pieces, of which the beginning is kept, and the end apart from it. */
export interface BoundedText {
  add(chunk: Uint8Array): void;
  /** What was kept of the beginning; bytes that are no UTF-8 show as U+FFFD. */
  text(): string;
  /** The last 4 KiB, also of what was not kept. */
  end(): string;
  /** Whether more came than is kept. */
  readonly cut: boolean;
}

const END_BYTES = 4096;

/** Collects at most `limit` bytes; what comes after them is dropped, so that no program fills the memory. */
export function createBoundedText(limit: number): BoundedText {
  const chunks: Uint8Array[] = [];
  let size = 0;
  let last: Buffer = Buffer.alloc(0);
  let cut = false;
  return {
    add(chunk) {
      const room = limit - size;
      if (chunk.byteLength > room) cut = true;
      if (room > 0) {
        const kept = chunk.subarray(0, room);
        chunks.push(kept);
        size += kept.byteLength;
      }
      last = Buffer.concat([last, chunk.subarray(-END_BYTES)]).subarray(-END_BYTES);
    },
    text: () => Buffer.concat(chunks, size).toString("utf8"),
    end: () => last.toString("utf8"),
    get cut() {
      return cut;
    },
  };
}
