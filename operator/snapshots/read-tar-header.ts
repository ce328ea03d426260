import { ArchiveError } from "./archive-error.ts";

export const BLOCK = 512;

/** The fields of a header block as they stand there; strings are latin1. */
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
 * @throws ArchiveError when the block is no header
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
