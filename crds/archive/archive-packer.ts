import { createHash, type Hash } from "node:crypto";
import { createTableWriter, type TableMark, type TableWriter } from "./archive-table.ts";
import { type Kept, packKept } from "./compose-archive.ts";
import { createGzipMembers } from "./gzip-members.ts";
import { type TarEntry, tarPadding } from "./tar-header.ts";

/** Offsets in an archive before its compression. */
export interface EntryPlace {
  /** Of the entry's first header. */
  readonly at: number;
  readonly contentAt: number;
}

/** Compresses a tar archive so that each file can be read without the rest, and lists what it holds. */
export interface ArchivePacker {
  /** Call this for each entry, before `pack` gets its first byte. */
  begin(entry: TarEntry, place: EntryPlace): void;
  /**
   * Compresses the archive to gzip members: one for each file, or for each 4 MiB of it; small files share one up to
   * 64 KiB. Behind them is the table, in members without a content. Any program reads the whole as one gzip file.
   */
  pack(tar: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): AsyncGenerator<Buffer>;
  /** Identifies the table once everything is packed; undefined if there are too many entries for one. */
  table(): TableMark | undefined;
}

/** Entries share a gzip member up to this size. */
const SHARED_BYTES = 64 * 1024;
const PIECE_BYTES = 4 * 1024 * 1024;

interface Begun extends EntryPlace {
  readonly entry: TarEntry;
}

/** @param kept entries of another archive, with which this one begins. @default none */
export function createArchivePacker(kept?: Kept): ArchivePacker {
  const writer = createTableWriter();
  /** Entries whose content has not been packed yet. */
  const begun: Begun[] = [];
  /** Offsets at which members end. */
  const cuts: number[] = [];
  let memberAt = 0;
  let mark: TableMark | undefined;

  function cutAt(offset: number): void {
    cuts.push(offset);
    memberAt = offset;
  }

  return {
    begin(entry, { at, contentAt }) {
      begun.push({ entry, at, contentAt });
      const end = contentAt + entry.size + tarPadding(entry.size).length;
      if (end - memberAt > SHARED_BYTES && at > memberAt) cutAt(at);
      for (let piece = contentAt + PIECE_BYTES; piece < end; piece += PIECE_BYTES) cutAt(piece);
    },
    async *pack(tar) {
      const before = kept && packKept(kept, writer);
      if (before !== undefined) yield* before.content;
      const digests = createDigests(begun, { add: moved(writer, before?.bytes ?? 0) });
      const members = createGzipMembers(writer.addMember);
      let at = 0;
      for await (const chunk of tar) {
        digests.take(chunk);
        for (let from = 0; from < chunk.length; ) {
          const [cut = Number.POSITIVE_INFINITY] = cuts;
          const piece = chunk.subarray(from, from + cut - at);
          members.take(piece);
          from += piece.length;
          at += piece.length;
          if (at === cut) {
            cuts.shift();
            members.end();
          }
          yield* members.parts();
        }
      }
      members.end();
      yield* members.rest();
      const table = await writer.finish();
      mark = table?.mark;
      if (table !== undefined) yield table.bytes;
    },
    table: () => mark,
  };
}

function moved({ add }: TableWriter, bytes: number): TableWriter["add"] {
  return (entry, { at, sha256 }) => add(entry, { at: at + bytes, sha256 });
}

/** Adds each entry to the table when its content has passed. */
function createDigests(begun: Begun[], table: Pick<TableWriter, "add">): { take(chunk: Uint8Array): void } {
  let at = 0;
  let hash: Hash | undefined;

  function endPassed(): void {
    for (let [one] = begun; one !== undefined && at >= endOf(one); [one] = begun) {
      const sha256 = one.entry.type === "file" ? (hash ?? createHash("sha256")).digest() : undefined;
      table.add(one.entry, { at: one.at, sha256 });
      hash = undefined;
      begun.shift();
    }
  }

  return {
    take(chunk) {
      for (let from = 0; from < chunk.length; ) {
        const [one] = begun;
        const length = one === undefined ? chunk.length - from : Math.min(chunk.length - from, endOf(one) - at);
        const skipped = one === undefined ? length : Math.min(length, Math.max(0, one.contentAt - at));
        if (skipped < length) {
          hash ??= createHash("sha256");
          hash.update(chunk.subarray(from + skipped, from + length));
        }
        at += length;
        from += length;
        endPassed();
      }
    },
  };
}

/** The offset behind an entry's content, without its padding. */
function endOf({ contentAt, entry }: Begun): number {
  return contentAt + entry.size;
}
