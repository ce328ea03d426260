import { Readable } from "node:stream";
import * as assert from "uvu/assert";
import { createArchiveCheck } from "../../../crds/archive/archive-check.ts";
import { createArchivePacker } from "../../../crds/archive/archive-packer.ts";
import { type ArchiveTable, readTable, type TableMark } from "../../../crds/archive/archive-table.ts";
import { composeArchive } from "../../../crds/archive/compose-archive.ts";
import { createEntryBits } from "../../../crds/archive/entry-bits.ts";
import { type TarEntry, tarPadding, writeTarHeader } from "../../../crds/archive/tar-header.ts";
import { limits } from "./check-archive.ts";
import { tarEnd } from "./raw-tar.ts";

/** An entry of an archive. */
export interface Item {
  readonly entry: TarEntry;
  readonly content: Buffer;
}

/** An archive with its table. */
export interface Packed {
  readonly archive: Buffer;
  readonly mark: TableMark;
  readonly table: ArchiveTable;
}

export const fields = { mode: 0o644, uid: 1000, gid: 1000, mtime: 1_700_000_000, target: "" };

export function fileOf(path: string, content: Buffer): Item {
  return { entry: { ...fields, type: "file", path, size: content.length }, content };
}

export function tarOf(items: readonly Item[]): Buffer {
  return Buffer.concat(
    items.flatMap(({ entry, content }) => [writeTarHeader(entry), content, tarPadding(content.length)]),
  );
}

/** As a save does. */
export async function pack(items: readonly Item[]): Promise<Packed> {
  const packer = createArchivePacker();
  const check = createArchiveCheck({ roots: ["data"], limits, onEntry: packer.begin });
  const parts: Buffer[] = [];
  const source = Readable.from([Buffer.concat([tarOf(items), tarEnd])]).pipe(check.stream);
  for await (const part of packer.pack(source)) parts.push(part);
  return await packed(Buffer.concat(parts), packer.table());
}

export async function packed(archive: Buffer, mark: TableMark | undefined): Promise<Packed> {
  assert.ok(mark !== undefined);
  return { archive, mark, table: await readTable(archive.subarray(archive.length - mark.sizeBytes), mark) };
}

/** Entries that stay. */
export function bitsOf(kept: ReadonlySet<number>): Uint8Array {
  const bits = createEntryBits(new Uint8Array(32));
  for (const number of kept) bits.add(number);
  return bits.bytes;
}

/** Composes an archive of entries of one that stay and of changes. */
export async function compose(base: Packed, kept: ReadonlySet<number>, changes: Packed): Promise<Packed> {
  const whole = composeArchive({
    base: { table: base.table, content: pieces(base.archive) },
    keeps: bitsOf(kept),
    changes: { table: changes.table, content: pieces(changes.archive) },
  });
  const parts: Buffer[] = [];
  for await (const part of whole.content) parts.push(part);
  return await packed(Buffer.concat(parts), whole.table());
}

/** In pieces whose sizes fit no boundary. */
export async function* pieces(archive: Buffer, size = 7919): AsyncGenerator<Buffer> {
  for (let from = 0; from < archive.length; from += size) yield archive.subarray(from, from + size);
}
