import { createHash } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { ArchiveError } from "../../../../crds/archive/archive-error.ts";
import { readTable, type TableMark } from "../../../../crds/archive/archive-table.ts";
import type { TabledArchive } from "../../../../crds/archive/compose-archive.ts";
import { READ_BYTES } from "./volume-files.ts";
import type { WrittenFile } from "./write-file.ts";

/** An archive in an open file, whose digest is checked at the end of its content. */
export async function openTabled(
  handle: FileHandle,
  { sha256, sizeBytes, table }: WrittenFile & { readonly table: TableMark },
): Promise<TabledArchive> {
  const parts: Buffer[] = [];
  for await (const part of readBytes(handle, Math.max(0, sizeBytes - table.sizeBytes))) parts.push(Buffer.from(part));

  async function* content(): AsyncGenerator<Uint8Array> {
    const hash = createHash("sha256");
    for await (const piece of readBytes(handle, 0)) {
      hash.update(piece);
      yield piece;
    }
    if (hash.digest("hex") === sha256) return;
    throw new ArchiveError("Corrupt", "its SHA-256 is not the one that was recorded");
  }

  return { table: await readTable(Buffer.concat(parts), table), content: content() };
}

/** Reads ahead. The memory of a piece is used again once the next one is asked for. */
async function* readBytes(handle: FileHandle, start: number): AsyncGenerator<Buffer> {
  let [buffer, other] = [Buffer.allocUnsafeSlow(READ_BYTES), Buffer.allocUnsafeSlow(READ_BYTES)];
  let position = start;
  let reading = handle.read(buffer, 0, READ_BYTES, position);
  try {
    for (;;) {
      const { bytesRead } = await reading;
      if (bytesRead === 0) return;
      position += bytesRead;
      reading = handle.read(other, 0, READ_BYTES, position);
      reading.catch(ignore);
      yield buffer.subarray(0, bytesRead);
      [buffer, other] = [other, buffer];
    }
  } finally {
    await reading.catch(ignore);
  }
}

function ignore(): void {
  // The failure is thrown where it is awaited.
}
