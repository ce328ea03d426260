import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { inflateRaw } from "node:zlib";
import * as v from "valibot";
import { ArchiveError } from "./archive-error.ts";
import { deflated, type GzipMember, packed } from "./gzip-members.ts";
import type { TarEntry, TarEntryType } from "./tar-header.ts";

/** Identifies the table at the end of an archive. */
export interface TableMark {
  /** How many of the archive's last bytes are the table. */
  readonly sizeBytes: number;
  /** Of these bytes, in hexadecimal digits. */
  readonly sha256: string;
}

/** An entry of an archive. */
export interface TableEntry extends TarEntry {
  /** The offset of its first header in the archive before its compression. */
  readonly at: number;
  /** Of a file's content, in hexadecimal digits; undefined for other types. */
  readonly sha256: string | undefined;
}

/** What an archive holds, and where. */
export interface ArchiveTable {
  /** All bytes of the archive before the table. */
  readonly members: readonly GzipMember[];
  /** In the archive's order. A path may be there twice: the last one counts. */
  entries(): Generator<TableEntry>;
}

export interface TableWriter {
  add(entry: TarEntry, place: { readonly at: number; readonly sha256: Buffer | undefined }): void;
  addMember(member: GzipMember): void;
  /** The bytes of the table, which end the archive; undefined if there are too many entries for a table. */
  finish(): Promise<{ readonly bytes: Buffer; readonly mark: TableMark } | undefined>;
}

/** An archive of more entries has no table. An entry takes about 60 bytes of memory while the table is written. */
const MOST_ENTRIES = 200_000;
/** Before compression. Reading a table takes as much memory. */
const MOST_TEXT_BYTES = 64 * 1024 * 1024;
const BLOCK_BYTES = 256 * 1024;

/** Of the extra field of a gzip member. busybox reads no longer one than 16 KiB. */
const MOST_FIELD_BYTES = 8 * 1024;
const SUBFIELD = Buffer.from("tn");
const HEAD_BYTES = 16;
/** An empty DEFLATE stream, and the checksum and size of an empty content. */
const EMPTY = Buffer.from([3, 0, 0, 0, 0, 0, 0, 0, 0, 0]);

const inflate = promisify<Buffer, object, Buffer>(inflateRaw);

const count = v.pipe(v.number(), v.integer(), v.minValue(0));
/** Type, path, mode, uid, gid, mtime, size, offset, target, SHA-256 in base64. */
type EntryLine = [TarEntryType, string, number, number, number, number, number, number, string, string];
/** The last line: bytes and content bytes of each member. */
const membersSchema = v.object({ format: v.literal(1), members: v.array(v.tuple([count, count])) });

/** Collects an archive's table while the archive is written: a line of JSON for each entry, and then the members. */
export function createTableWriter(): TableWriter {
  const members: [number, number][] = [];
  const blocks: Promise<Buffer[]>[] = [];
  let lines: string[] = [];
  let lineBytes = 0;
  let entries = 0;
  let textBytes = 0;
  let isTooLarge = false;

  function endBlock(): void {
    const block = Buffer.from(lines.join(""));
    const compressed = packed(block);
    // A failure is thrown by `finish`; until then, it must not count as unhandled.
    compressed.catch(() => undefined);
    blocks.push(compressed);
    textBytes += block.length;
    lines = [];
    lineBytes = 0;
  }

  return {
    add({ type, path, mode, uid, gid, mtime, size, target }, { at, sha256 }) {
      entries += 1;
      isTooLarge ||= entries > MOST_ENTRIES || textBytes > MOST_TEXT_BYTES;
      if (isTooLarge) return;
      const digest = sha256?.toString("base64") ?? "";
      const fields: EntryLine = [type, path, mode, uid, gid, mtime, size, at, target, digest];
      const line = `${JSON.stringify(fields)}\n`;
      lines.push(line);
      lineBytes += line.length;
      if (lineBytes > BLOCK_BYTES) endBlock();
    },
    addMember: ({ bytes, contentBytes }) => void members.push([bytes, contentBytes]),
    async finish() {
      lines.push(JSON.stringify({ format: 1, members }));
      endBlock();
      const text = await deflated(blocks);
      if (isTooLarge || textBytes > MOST_TEXT_BYTES) return undefined;
      const bytes = inMembers(text);
      return { bytes, mark: { sizeBytes: bytes.length, sha256: digestOf(bytes) } };
    },
  };
}

/**
 * Reads the table at the end of an archive.
 *
 * @throws ArchiveError if the bytes are not the table that was written with the archive
 */
export async function readTable(bytes: Buffer, mark: TableMark): Promise<ArchiveTable> {
  if (bytes.length !== mark.sizeBytes || digestOf(bytes) !== mark.sha256) {
    throw new ArchiveError("Corrupt", "its table of files is not the one that was written with it");
  }
  const text = await inflate(outOfMembers(bytes), { maxOutputLength: MOST_TEXT_BYTES });
  const end = text.lastIndexOf("\n") + 1;
  const { members } = v.parse(membersSchema, JSON.parse(text.toString("utf8", end)));
  return {
    members: members.map(([bytes, contentBytes]) => ({ bytes, contentBytes })),
    *entries() {
      for (let from = 0; from < end; ) {
        const to = text.indexOf("\n", from);
        yield readEntry(text.toString("utf8", from, to));
        from = to + 1;
      }
    },
  };
}

/** The digest of the table vouches for its lines. */
function readEntry(line: string): TableEntry {
  const [type, path, mode, uid, gid, mtime, size, at, target, digest] = JSON.parse(line) as EntryLine;
  const sha256 = digest === "" ? undefined : Buffer.from(digest, "base64").toString("hex");
  return { type, path, mode, uid, gid, mtime, size, at, target, sha256 };
}

/** Gzip members without a content, whose extra fields hold the bytes: a program that unpacks the archive skips them. */
function inMembers(bytes: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let from = 0; from < bytes.length; from += MOST_FIELD_BYTES) {
    const field = bytes.subarray(from, from + MOST_FIELD_BYTES);
    const head = Buffer.from([0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 4, 3, 0, 0, ...SUBFIELD, 0, 0]);
    head.writeUInt16LE(SUBFIELD.length + 2 + field.length, 10);
    head.writeUInt16LE(field.length, 14);
    parts.push(head, field, EMPTY);
  }
  return Buffer.concat(parts);
}

function outOfMembers(bytes: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const length = bytes.readUInt16LE(at + HEAD_BYTES - 2);
    parts.push(bytes.subarray(at + HEAD_BYTES, at + HEAD_BYTES + length));
    at += HEAD_BYTES + length + EMPTY.length;
  }
  return Buffer.concat(parts);
}

function digestOf(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}
