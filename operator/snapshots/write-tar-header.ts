import { BLOCK } from "./read-tar-header.ts";
import type { TarEntry, TarEntryType } from "./tar-entry.ts";

const types: Readonly<Record<TarEntryType, string>> = { file: "0", hardlink: "1", symlink: "2", directory: "5" };
const nameBytes = 100;

/**
 * The header blocks of an entry, in GNU's format, which every tar reads: a path that is too long for its field comes first, as the
 * content of an entry of its own. What leaves here says one thing only, whoever reads it.
 */
export function writeTarHeader(entry: TarEntry): Buffer {
  const path = entry.type === "directory" ? `${entry.path}/` : entry.path;
  const blocks: Buffer[] = [];
  if (entry.target.length >= nameBytes) blocks.push(...longName("K", entry.target));
  if (path.length >= nameBytes) blocks.push(...longName("L", path));
  blocks.push(header({ ...entry, path, type: types[entry.type] }));
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
  number(block, { offset: 100, length: 8, value: fields.mode });
  number(block, { offset: 108, length: 8, value: fields.uid });
  number(block, { offset: 116, length: 8, value: fields.gid });
  number(block, { offset: 124, length: 12, value: fields.size });
  number(block, { offset: 136, length: 12, value: fields.mtime });
  block.fill(" ", 148, 156);
  block.write(fields.type, 156, "latin1");
  block.write(fields.target.slice(0, nameBytes - 1), 157, "latin1");
  block.write("ustar  \0", 257, "latin1");
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return block;
}

function number(block: Buffer, field: { offset: number; length: number; value: number }): void {
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
