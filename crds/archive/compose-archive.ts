import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import type { ByteRange } from "../snapshots/snapshot-store.ts";
import { ArchiveError } from "./archive-error.ts";
import { contentRange } from "./archive-files.ts";
import {
  type ArchiveTable,
  createTableWriter,
  type TableEntry,
  type TableMark,
  type TableWriter,
} from "./archive-table.ts";
import { createEntryBits } from "./entry-bits.ts";
import { createGzipMembers, type GzipMember } from "./gzip-members.ts";
import { tarPadding } from "./tar-header.ts";

/** An archive with its table. */
export interface TabledArchive {
  readonly table: ArchiveTable;
  /** All its bytes. It may use the memory of a piece again once the next one is asked for. */
  readonly content: AsyncIterable<Uint8Array>;
}

/** Entries of an archive that stay in another one. */
export interface Kept {
  readonly base: TabledArchive;
  /** Those of its entries that stay, as `EntryBits`. */
  readonly keeps: Uint8Array;
}

/** An archive that is made of two. */
export interface ComposedArchive {
  readonly content: AsyncGenerator<Buffer>;
  /** Identifies its table once the content was read; undefined if there are too many entries for one. */
  table(): TableMark | undefined;
}

type Place = Parameters<TableWriter["add"]>[1];

/** Slices of members are joined up to this size. */
const SHARED_BYTES = 64 * 1024;

const unpack = promisify<Buffer, Buffer>(gunzip);

/**
 * Makes an archive of entries of one that stay, and of all entries of another.
 *
 * Both archives are read to their ends, in this order, so that a reader that checks a digest has seen all of it.
 *
 * @returns the content; reading it throws an ArchiveError if a table is not its archive's, and what a content throws
 */
export function composeArchive({ changes, ...kept }: Kept & { readonly changes: TabledArchive }): ComposedArchive {
  const writer = createTableWriter();
  let mark: TableMark | undefined;

  async function* content(): AsyncGenerator<Buffer> {
    const part = packKept(kept, writer);
    yield* part.content;
    for (const entry of changes.table.entries()) writer.add(entry, placeOf(entry, part.bytes));
    for (const member of changes.table.members) writer.addMember(member);
    const reader = createReader(changes.content);
    try {
      yield* reader.take(changes.table.members.reduce((sum, { bytes }) => sum + bytes, 0));
      await reader.end();
    } finally {
      await reader.close();
    }
    const table = await writer.finish();
    mark = table?.mark;
    if (table !== undefined) yield table.bytes;
  }

  return { content: content(), table: () => mark };
}

/**
 * Begins an archive with the entries of another one that stay, which is read to its end. Members of which all entries
 * stay are copied as they are.
 *
 * @returns the bytes of the tar, and the content; reading it throws as that of `composeArchive` does
 */
export function packKept(
  { base, keeps }: Kept,
  writer: TableWriter,
): { readonly bytes: number; readonly content: AsyncGenerator<Buffer> } {
  const ranges = keptRanges(base.table, createEntryBits(keeps).has, writer.add);

  async function* content(): AsyncGenerator<Buffer> {
    const members = createGzipMembers(writer.addMember);
    const reader = createReader(base.content);
    let shared = 0;
    let at = 0;
    /** Of members next to each other that are copied as they are. */
    let copied = 0;

    function endMember(): void {
      members.end();
      shared = 0;
    }

    try {
      for (const member of base.table.members) {
        const slices = ranges.within({ from: at, to: at + member.contentBytes });
        const bytes = slices.reduce((sum, { from, to }) => sum + to - from, 0);
        const isWhole = bytes > 0 && bytes === member.contentBytes;
        if (!isWhole) {
          yield* reader.take(copied);
          copied = 0;
        }
        if (bytes === 0) {
          for await (const _ of reader.take(member.bytes));
        } else if (isWhole) {
          endMember();
          yield* members.rest();
          writer.addMember(member);
          copied += member.bytes;
        } else {
          const unpacked = await unpackMember(member, reader);
          if (shared + bytes > SHARED_BYTES) endMember();
          for (const { from, to } of slices) members.take(unpacked.subarray(from - at, to - at));
          shared += bytes;
          yield* members.parts();
        }
        at += member.contentBytes;
      }
      yield* reader.take(copied);
      endMember();
      yield* members.rest();
      await reader.end();
    } finally {
      await reader.close();
    }
  }

  return { bytes: ranges.bytes, content: content() };
}

/** Where the entries that stay are in the tar, next to each other ones together. */
function keptRanges(
  { entries }: ArchiveTable,
  keeps: (index: number) => boolean,
  add: (entry: TableEntry, place: Place) => void,
): { readonly bytes: number; within(member: ByteRange): ByteRange[] } {
  const ranges: { from: number; to: number }[] = [];
  let bytes = 0;
  let index = 0;
  for (const entry of entries()) {
    if (keeps(index)) {
      const { to: contentEnd } = contentRange(entry);
      const to = contentEnd + tarPadding(entry.size).length;
      const last = ranges.at(-1);
      if (last?.to === entry.at) last.to = to;
      else ranges.push({ from: entry.at, to });
      add(entry, placeOf(entry, bytes - entry.at));
      bytes += to - entry.at;
    }
    index += 1;
  }
  let first = 0;
  return {
    bytes,
    // Members come in order.
    within({ from, to }) {
      const found: ByteRange[] = [];
      while (first < ranges.length && (ranges[first] as ByteRange).to <= from) first += 1;
      for (let next = first; next < ranges.length; next += 1) {
        const range = ranges[next] as ByteRange;
        if (range.from >= to) break;
        found.push({ from: Math.max(from, range.from), to: Math.min(to, range.to) });
      }
      return found;
    },
  };
}

function placeOf({ at, sha256 }: TableEntry, moved: number): Place {
  return { at: at + moved, sha256: sha256 === undefined ? undefined : Buffer.from(sha256, "hex") };
}

async function unpackMember({ bytes, contentBytes }: GzipMember, reader: Reader): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of reader.take(bytes)) parts.push(Buffer.from(part));
  const unpacked = await unpack(Buffer.concat(parts)).catch((cause: unknown) => {
    throw new ArchiveError("Corrupt", "a part of it cannot be decompressed", { cause });
  });
  if (unpacked.length === contentBytes) return unpacked;
  throw new ArchiveError("Corrupt", "a part of it has another length than its table says");
}

interface Reader {
  /** The next bytes, as they come. @throws ArchiveError if there are fewer */
  take(bytes: number): AsyncGenerator<Buffer>;
  /** Reads what is left. */
  end(): Promise<void>;
  /** Ends the reading, wherever it is. */
  close(): Promise<void>;
}

function createReader(content: AsyncIterable<Uint8Array>): Reader {
  const pieces = content[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  return {
    async *take(bytes) {
      for (let left = bytes; left > 0; ) {
        if (rest.length === 0) {
          const { done, value } = await pieces.next();
          if (done === true) throw new ArchiveError("Corrupt", "it ends before its table says");
          rest = Buffer.from(value.buffer, value.byteOffset, value.length);
        }
        const piece = rest.subarray(0, left);
        rest = rest.subarray(piece.length);
        left -= piece.length;
        if (piece.length > 0) yield piece;
      }
    },
    async end() {
      while ((await pieces.next()).done !== true);
    },
    async close() {
      await pieces.return?.();
    },
  };
}
