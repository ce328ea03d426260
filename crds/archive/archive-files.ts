import { createHash } from "node:crypto";
import { pipeline } from "node:stream";
import { createGunzip } from "node:zlib";
import { ArchiveError, quote } from "./archive-error.ts";
import type { TableEntry } from "./archive-table.ts";
import type { GzipMember } from "./gzip-members.ts";
import { isOfZlib } from "./packed-tar.ts";
import { writeTarHeader } from "./tar-header.ts";

/** Bytes of an archive that have these bytes of the tar, among others. */
export interface PackedRange {
  readonly from: number;
  readonly to: number;
  /** The offset in the tar of the first byte in them. */
  readonly tarFrom: number;
}

/** Reads files from a part of an archive. */
export interface FileReader {
  /**
   * The content of a file; files are read in the archive's order. The last piece is given out only after the SHA-256 is
   * checked, so that a reader that has the announced number of bytes has the file.
   *
   * @throws ArchiveError if the content is not what was saved; what the source throws
   */
  read(file: TableEntry): AsyncGenerator<Uint8Array>;
  close(): void;
}

/** The members that have the bytes of the tar from one offset up to another. */
export function packedRange(members: readonly GzipMember[], wanted: { from: number; to: number }): PackedRange {
  let [at, packedAt] = [0, 0];
  let [from, tarFrom] = [0, 0];
  for (const { bytes, contentBytes } of members) {
    if (at <= wanted.from) [from, tarFrom] = [packedAt, at];
    at += contentBytes;
    packedAt += bytes;
    if (at >= wanted.to) break;
  }
  return { from, to: packedAt, tarFrom };
}

/** Where the content of an entry is in the tar. */
export function contentRange(entry: TableEntry): { from: number; to: number } {
  const from = entry.at + writeTarHeader(entry).length;
  return { from, to: from + entry.size };
}

/** @param packed whole gzip members, of which the first begins at `tarFrom` */
export function createFileReader(packed: AsyncIterable<Uint8Array>, tarFrom: number): FileReader {
  const unpacked = pipeline(packed, createGunzip(), () => undefined);
  const pieces = (unpacked as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  let at = tarFrom;
  let rest: Buffer = Buffer.alloc(0);

  /** The bytes up to an offset, as they come; fewer if the archive ends before. */
  async function* take(to: number): AsyncGenerator<Buffer> {
    while (at < to) {
      if (rest.length === 0) {
        const { done, value } = await pieces.next();
        if (done === true) return;
        rest = value;
      }
      const piece = rest.subarray(0, to - at);
      rest = rest.subarray(piece.length);
      at += piece.length;
      if (piece.length > 0) yield piece;
    }
  }

  return {
    async *read(file) {
      const { from, to } = contentRange(file);
      const hash = createHash("sha256");
      let last: Buffer | undefined;
      try {
        for await (const _ of take(from));
        for await (const piece of take(to)) {
          if (last !== undefined) yield last;
          last = piece;
          hash.update(piece);
        }
      } catch (error) {
        throw isOfZlib(error) ? damaged(file, error) : error;
      }
      // That of fewer bytes is another one.
      if (hash.digest("hex") !== file.sha256) throw damaged(file);
      if (last !== undefined) yield last;
    },
    close: () => void unpacked.destroy(),
  };
}

function damaged({ path }: TableEntry, cause?: unknown): ArchiveError {
  return new ArchiveError("Corrupt", `its file "${quote(path)}" is not what was saved`, { cause });
}
