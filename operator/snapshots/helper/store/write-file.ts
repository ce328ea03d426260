import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";

const WRITE_BYTES = 512 * 1024;

export interface WrittenFile {
  readonly sha256: string;
  readonly sizeBytes: number;
}

/**
 * Writes a stream to an open file in large pieces, syncs it to the disk and closes it. The stream may use the memory of
 * a piece again once the next one is asked for.
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
  let filling: Buffer | undefined;
  let other: Buffer | undefined;
  let filled = 0;
  let writing = Promise.resolve();

  /** Writes what the buffer has, while the other one is filled. */
  async function write(): Promise<void> {
    await writing;
    await check?.(sizeBytes);
    writing = writeAll(handle, filling?.subarray(0, filled));
    writing.catch(ignore);
    [filling, other] = [other, filling];
    filled = 0;
  }

  try {
    for await (const piece of content) {
      signal.throwIfAborted();
      hash.update(piece);
      sizeBytes += piece.length;
      for (let from = 0; from < piece.length; ) {
        filling ??= Buffer.allocUnsafeSlow(WRITE_BYTES);
        const part = piece.subarray(from, from + WRITE_BYTES - filled);
        filling.set(part, filled);
        filled += part.length;
        from += part.length;
        if (filled === WRITE_BYTES) await write();
      }
    }
    await write();
    await writing;
    signal.throwIfAborted();
    await handle.sync();
  } finally {
    await writing.catch(ignore);
    await handle.close();
  }
  return { sha256: hash.digest("hex"), sizeBytes };
}

async function writeAll(handle: FileHandle, bytes: Buffer | undefined): Promise<void> {
  for (let left = bytes; left !== undefined && left.length > 0; ) {
    const { bytesWritten } = await handle.write(left);
    left = left.subarray(bytesWritten);
  }
}

function ignore(): void {
  // The failure is thrown where it is awaited.
}
