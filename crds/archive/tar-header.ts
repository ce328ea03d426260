import { ArchiveError } from "./archive-error.ts";

export const BLOCK = 512;

/** The fields of a header block as written; strings are latin1. */
export interface TarHeader {
  readonly name: string;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  readonly size: number;
  readonly mtime: number;
  /** One character, such as `0` for a file. */
  readonly type: string;
  readonly linkName: string;
}

/**
 * Reads one header block of a tar archive; undefined for a block of zeros, which ends an archive.
 *
 * Follows https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html#tag_20_94_13_06 and, for large numbers,
 * https://www.gnu.org/software/tar/manual/html_node/Extensions.html
 *
 * @throws ArchiveError if the block is not a header
 */
export function readTarHeader(block: Buffer): TarHeader | undefined {
  let sum = 0;
  for (let index = 0; index < BLOCK; index += 1) {
    sum += index >= 148 && index < 156 ? 0x20 : (block[index] ?? 0);
  }
  if (sum === 8 * 0x20 && block.subarray(148, 156).every((byte) => byte === 0)) return undefined;
  if (sum !== number(block, 148, 8)) throw new ArchiveError("Corrupt", "a header's checksum is wrong");
  // GNU's format uses the bytes of the prefix for other things.
  const prefix = block.toString("latin1", 257, 263) === "ustar\0" ? text(block, 345, 155) : "";
  const name = text(block, 0, 100);
  return {
    name: prefix === "" ? name : `${prefix}/${name}`,
    mode: number(block, 100, 8) & 0o7777,
    uid: number(block, 108, 8),
    gid: number(block, 116, 8),
    size: number(block, 124, 12),
    mtime: number(block, 136, 12),
    type: block.toString("latin1", 156, 157).replace("\0", "0"),
    linkName: text(block, 157, 100),
  };
}

function text(block: Buffer, offset: number, length: number): string {
  const field = block.toString("latin1", offset, offset + length);
  const end = field.indexOf("\0");
  return end === -1 ? field : field.slice(0, end);
}

/** Octal digits, or with the first bit set a big-endian number. */
function number(block: Buffer, offset: number, length: number): number {
  if (block[offset] === 0x80) {
    const value = block.subarray(offset + 1, offset + length).reduce((sum, byte) => sum * 256 + byte, 0);
    if (Number.isSafeInteger(value)) return value;
  } else {
    const digits = text(block, offset, length).trim();
    if (/^[0-7]*$/.test(digits)) return digits === "" ? 0 : Number.parseInt(digits, 8);
  }
  throw new ArchiveError("Corrupt", "a header holds something that is no number");
}

export type TarEntryType = "file" | "directory" | "symlink" | "hardlink";

/** An entry of an archive. Paths are bytes, one per character (latin1), since a file's name need not be UTF-8. */
export interface TarEntry {
  readonly type: TarEntryType;
  /** Relative to `/`, without a slash at the end. */
  readonly path: string;
  /** Permissions with the setuid, setgid and sticky bits. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Seconds since the epoch. */
  readonly mtime: number;
  /** Bytes of a file's content; 0 for other types. */
  readonly size: number;
  /** The target of a link; `""` for other types. */
  readonly target: string;
}

/** The character of each type in a header. */
export const tarTypes: Readonly<Record<TarEntryType, string>> = {
  file: "0",
  hardlink: "1",
  symlink: "2",
  directory: "5",
};
const nameBytes = 100;

/**
 * The header blocks of an entry in GNU's format, which every tar reads. A path that is too long for its field comes
 * before the header, as the content of a separate entry. Every reader interprets the output in the same way.
 */
export function writeTarHeader(entry: TarEntry): Buffer {
  const path = entry.type === "directory" ? `${entry.path}/` : entry.path;
  const blocks: Buffer[] = [];
  if (entry.target.length >= nameBytes) blocks.push(...longName("K", entry.target));
  if (path.length >= nameBytes) blocks.push(...longName("L", path));
  blocks.push(header({ ...entry, path, type: tarTypes[entry.type] }));
  return blocks.length === 1 && blocks[0] !== undefined ? blocks[0] : Buffer.concat(blocks);
}

/** The zeros that fill the last block of a content of `size` bytes. */
export function tarPadding(size: number): Buffer {
  return Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);
}

function longName(type: "K" | "L", name: string): Buffer[] {
  const size = name.length + 1;
  const fields = { type, path: "././@LongLink", mode: 0o644, uid: 0, gid: 0, mtime: 0, size, target: "" };
  return [header(fields), Buffer.from(`${name}\0`, "latin1"), tarPadding(size)];
}

function header(fields: Omit<TarEntry, "type"> & { type: string }): Buffer {
  const block = Buffer.alloc(BLOCK);
  block.write(fields.path.slice(0, nameBytes - 1), 0, "latin1");
  writeNumber(block, { offset: 100, length: 8, value: fields.mode });
  writeNumber(block, { offset: 108, length: 8, value: fields.uid });
  writeNumber(block, { offset: 116, length: 8, value: fields.gid });
  writeNumber(block, { offset: 124, length: 12, value: fields.size });
  writeNumber(block, { offset: 136, length: 12, value: fields.mtime });
  block.fill(" ", 148, 156);
  block.write(fields.type, 156, "latin1");
  block.write(fields.target.slice(0, nameBytes - 1), 157, "latin1");
  block.write("ustar  \0", 257, "latin1");
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return block;
}

function writeNumber(block: Buffer, field: { offset: number; length: number; value: number }): void {
  const { offset, length, value } = field;
  const digits = value.toString(8);
  if (digits.length < length) {
    block.write(`${digits.padStart(length - 1, "0")}\0`, offset, "latin1");
    return;
  }
  let rest = value;
  for (let index = offset + length - 1; index > offset; index -= 1) {
    block[index] = rest % 256;
    rest = Math.floor(rest / 256);
  }
  block[offset] = 0x80;
}
