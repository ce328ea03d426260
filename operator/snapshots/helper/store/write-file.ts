import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";

const WRITE_BYTES = 1024 * 1024;

export interface WrittenFile {
  readonly sha256: string;
  readonly sizeBytes: number;
}

/**
 * Writes a stream to an open file in large pieces, syncs it to the disk and closes it.
 *
 * @param options.check called with the number of bytes before they are written; if it throws, the writing ends
 */
export async function writeFile(
  handle: FileHandle,
  content: AsyncIterable<Uint8Array>,
  options: { signal: AbortSignal; check?: (sizeBytes: number) => Promise<void> },
): Promise<WrittenFile> {
  const { signal, check } = options;
  const hash = createHash("sha256");
  let sizeBytes = 0;
  let pieces: Uint8Array[] = [];
  let bytes = 0;
  async function write(): Promise<void> {
    await check?.(sizeBytes);
    for (let left = pieces; left.length > 0; ) {
      const { bytesWritten } = await handle.writev(left);
      left = withoutFirst(left, bytesWritten);
    }
    pieces = [];
    bytes = 0;
  }
  try {
    for await (const piece of content) {
      signal.throwIfAborted();
      hash.update(piece);
      sizeBytes += piece.length;
      bytes += piece.length;
      pieces.push(piece);
      if (bytes >= WRITE_BYTES) await write();
    }
    await write();
    signal.throwIfAborted();
    await handle.sync();
  } finally {
    await handle.close();
  }
  return { sha256: hash.digest("hex"), sizeBytes };
}

/** The pieces without their first `written` bytes. */
function withoutFirst(pieces: readonly Uint8Array[], written: number): Uint8Array[] {
  let done = written;
  const left: Uint8Array[] = [];
  for (const piece of pieces) {
    if (done < piece.length) left.push(piece.subarray(done));
    done = Math.max(0, done - piece.length);
  }
  return left;
}
