// @runtimes node bun deno
import { createHash, randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { gunzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createArchiveCheck } from "../../../crds/archive/archive-check.ts";
import { contentRange, createFileReader, packedRange } from "../../../crds/archive/archive-files.ts";
import { createArchivePacker } from "../../../crds/archive/archive-packer.ts";
import {
  type ArchiveTable,
  createTableWriter,
  readTable,
  type TableEntry,
  type TableMark,
} from "../../../crds/archive/archive-table.ts";
import { type TarEntry, tarPadding, writeTarHeader } from "../../../crds/archive/tar-header.ts";
import { limits } from "./check-archive.ts";
import { tarEnd } from "./raw-tar.ts";

const test = suite("archive packer");
const MiB = 1024 * 1024;

interface Packed {
  tar: Buffer;
  archive: Buffer;
  mark: TableMark | undefined;
}

/** Packs what comes through the check, as a save does. */
async function pack(tar: Buffer, pieceBytes = 65_536): Promise<Packed> {
  const packer = createArchivePacker();
  const check = createArchiveCheck({ roots: ["data"], limits, onEntry: packer.begin });
  const out: Buffer[] = [];
  await pipeline(Readable.from(piecesOf(tar, pieceBytes)), check.stream, async (checked: AsyncIterable<Buffer>) => {
    for await (const part of packer.pack(checked)) out.push(part);
  });
  return { tar, archive: Buffer.concat(out), mark: packer.table() };
}

function* piecesOf(content: Buffer, pieceBytes: number): Generator<Buffer> {
  for (let from = 0; from < content.length; from += pieceBytes) yield content.subarray(from, from + pieceBytes);
}

/** Only compressed, without entries. */
async function compress(content: Buffer, pieceBytes = 65_536): Promise<Buffer> {
  const out: Buffer[] = [];
  for await (const part of createArchivePacker().pack(piecesOf(content, pieceBytes))) out.push(part);
  return Buffer.concat(out);
}

async function tableOf({ archive, mark }: Packed): Promise<ArchiveTable> {
  assert.ok(mark !== undefined);
  return await readTable(archive.subarray(archive.length - mark.sizeBytes), mark);
}

/** The bytes of the tar from one offset up to another, from nothing but the members that have them. */
function slice({ archive }: Packed, { members }: ArchiveTable, wanted: { from: number; to: number }): Buffer {
  const { from, to, tarFrom } = packedRange(members, wanted);
  return gunzipSync(archive.subarray(from, to)).subarray(wanted.from - tarFrom, wanted.to - tarFrom);
}

async function contentOf({ archive }: Packed, table: ArchiveTable, file: TableEntry): Promise<Buffer> {
  const { from, to, tarFrom } = packedRange(table.members, contentRange(file));
  const reader = createFileReader(Readable.from(piecesOf(archive.subarray(from, to), 10_000)), tarFrom);
  const read: Uint8Array[] = [];
  for await (const piece of reader.read(file)) read.push(piece);
  return Buffer.concat(read);
}

const fields = { mode: 0o644, uid: 1000, gid: 1000, mtime: 1_700_000_000, target: "" };

function tarOf(entries: readonly { entry: TarEntry; content: Buffer }[]): Buffer {
  const blocks = entries.flatMap(({ entry, content }) => [writeTarHeader(entry), content, tarPadding(content.length)]);
  return Buffer.concat([...blocks, tarEnd]);
}

function file(path: string, content: Buffer): { entry: TarEntry; content: Buffer } {
  return { entry: { ...fields, type: "file", path, size: content.length }, content };
}

const tree = [
  { entry: { ...fields, type: "directory", path: "data", size: 0, mode: 0o755 } as const, content: Buffer.alloc(0) },
  file("data/empty", Buffer.alloc(0)),
  ...Array.from({ length: 300 }, (_, index) => file(`data/small ${index}`, randomBytes((index * 37) % 3000))),
  file(`data/${"long".repeat(60)}`, Buffer.from("a long name")),
  file("data/\xc3\xa9\xff", Buffer.from("a name that is no UTF-8")),
  file("data/larger than a shared member", randomBytes(70_000)),
  file("data/of some pieces", Buffer.concat([randomBytes(5 * MiB), Buffer.alloc(5 * MiB, "text ")])),
  file("data/of just a piece", randomBytes(4 * MiB)),
  ...[0, 1, 511, 512, 513].map((more) => file(`data/near the end ${more}`, randomBytes(4 * MiB - 512 + more))),
  { entry: { ...fields, type: "symlink", path: "data/link", target: "empty", size: 0 } as const, content: tarEnd },
  {
    entry: { ...fields, type: "hardlink", path: "data/hard", target: "data/empty", size: 0 } as const,
    content: tarEnd,
  },
].map(({ entry, content }) => ({ entry, content: content.subarray(0, entry.size) }));

test("gives back what it was given, whatever that is", async () => {
  const text = Buffer.from(Array.from({ length: 60_000 }, (_, n) => `line ${n} of ${n * 7919}\n`).join(""));
  const sizes = [1, 4095, 65_535, 65_536, 262_143, 262_144, 262_145, 1_000_000];
  const contents = [
    ...sizes.flatMap((size) => [randomBytes(size), Buffer.alloc(size), text.subarray(0, size)]),
    Buffer.concat([text, randomBytes(700_000), text, Buffer.alloc(300_000), randomBytes(5)]),
  ];
  for (const content of contents) {
    for (const pieceBytes of [65_536, 7919]) {
      const made = await compress(content, pieceBytes);
      assert.ok(gunzipSync(made).equals(content), `${content.length} bytes in pieces of ${pieceBytes}`);
    }
  }
});

test("lists each entry, and each can be read from its own members", async () => {
  for (const pieceBytes of [65_536, 511]) {
    const packed = await pack(tarOf(tree), pieceBytes);
    assert.ok(gunzipSync(packed.archive).equals(packed.tar));
    const table = await tableOf(packed);
    const entries = [...table.entries()];
    assert.equal(
      entries.map(({ at, sha256, ...entry }) => entry),
      tree.map(({ entry }) => entry),
    );
    for (const [index, { entry, content }] of tree.entries()) {
      const listed = entries[index] as TableEntry;
      const { at, sha256 } = listed;
      const header = writeTarHeader(entry);
      assert.ok(slice(packed, table, { from: at, to: at + header.length }).equals(header), entry.path);
      const digest = createHash("sha256").update(content).digest("hex");
      assert.is(sha256, entry.type === "file" ? digest : undefined);
      if (entry.size > 0) assert.ok((await contentOf(packed, table, listed)).equals(content), entry.path);
    }
    const { members } = table;
    assert.is(
      members.reduce((sum, { contentBytes }) => sum + contentBytes, 0),
      packed.tar.length,
    );
    const [tableBytes, memberBytes] = [packed.mark?.sizeBytes ?? 0, members.reduce((sum, { bytes }) => sum + bytes, 0)];
    assert.is(memberBytes + tableBytes, packed.archive.length);
    assert.ok(Math.max(...members.map(({ contentBytes }) => contentBytes)) <= 4 * MiB + 64 * 1024);
  }
});

test("a table that was changed, cut or belongs to another archive is refused", async () => {
  const packed = await pack(tarOf(tree.slice(0, 20)));
  const mark = packed.mark as TableMark;
  const table = packed.archive.subarray(packed.archive.length - mark.sizeBytes);
  const changed = Buffer.from(table);
  changed[40] = (changed[40] ?? 0) ^ 1;
  const other = await pack(tarOf(tree.slice(0, 21)));
  const foreign = other.archive.subarray(other.archive.length - (other.mark?.sizeBytes ?? 0));
  for (const bytes of [changed, table.subarray(1), foreign]) {
    const said = await readTable(bytes, mark).catch(String);
    assert.match(String(said), /its table of files is not the one that was written with it/);
  }
});

test("a file whose bytes were changed, cut or exchanged is not given out as whole", async () => {
  const packed = await pack(tarOf(tree));
  const table = await tableOf(packed);
  const files = [...table.entries()].filter(({ type, size }) => type === "file" && size > 0);
  const large = files.find(({ size }) => size > 9 * MiB) as TableEntry;
  const { from, to } = packedRange(table.members, { from: large.at, to: large.at + 512 + large.size });
  for (const at of [from + 20, Math.floor((from + to) / 2), to - 40]) {
    const changed = Buffer.from(packed.archive);
    changed[at] = (changed[at] ?? 0) ^ 1;
    for (const archive of [changed, packed.archive.subarray(0, at)]) {
      const said = await contentOf({ ...packed, archive }, table, large).catch(String);
      assert.match(String(said), 'ArchiveError: its file "data/of some pieces" is not what was saved');
    }
  }
  const [one, other] = files.filter(({ size }) => size === 4 * MiB) as [TableEntry, TableEntry];
  const said = await contentOf(packed, table, { ...one, at: other.at }).catch(String);
  assert.match(String(said), 'ArchiveError: its file "data/of just a piece" is not what was saved');
});

test("an archive of more entries or longer paths than a table may have gets none", async () => {
  const isWritten = async (entries: number, path: string): Promise<boolean> => {
    const writer = createTableWriter();
    const { entry } = file(path, Buffer.alloc(0));
    for (let at = 0; at < entries; at += 1) writer.add(entry, { at, sha256: undefined });
    return (await writer.finish()) !== undefined;
  };
  const longest = "p".repeat(4096);
  assert.equal([await isWritten(200_000, "data"), await isWritten(200_001, "data")], [true, false]);
  assert.equal([await isWritten(15_000, longest), await isWritten(17_000, longest)], [true, false]);
});

test("fails with what its source fails with", async () => {
  async function* broken(): AsyncGenerator<Buffer> {
    yield randomBytes(1000);
    throw new Error("the pod is gone");
  }
  let error: unknown;
  try {
    for await (const part of createArchivePacker().pack(broken())) assert.ok(part.length > 0);
  } catch (caught) {
    error = caught;
  }
  assert.match(String(error), /the pod is gone/);
});

test.run();
