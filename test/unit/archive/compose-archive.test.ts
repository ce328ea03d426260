// @runtimes node bun deno
import { createHash, randomBytes } from "node:crypto";
import { gunzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { contentRange, createFileReader, packedRange } from "../../../crds/archive/archive-files.ts";
import { tarPadding, writeTarHeader } from "../../../crds/archive/tar-header.ts";
import { createRandom } from "../../random.ts";
import { compose, fields, fileOf, type Item, type Packed, pack, pieces, tarOf } from "./packed-archives.ts";
import { tarEnd } from "./raw-tar.ts";

const test = suite("composed archives");
const KiB = 1024;

const sizes = [0, 1, 511, 512, 513, 5 * KiB, 40 * KiB, 64 * KiB, 70 * KiB, 300 * KiB, 4096 * KiB - 512, 4200 * KiB];

function randomItems(random: (below: number) => number, name: string): Item[] {
  return Array.from({ length: 1 + random(60) }, (_, index) => {
    const path = `data/${name}${index}${"x".repeat(random(4) === 0 ? 120 : 0)}`;
    const type = (["directory", "symlink"] as const)[random(12)];
    if (type !== undefined) {
      const entry = { ...fields, type, path, size: 0, target: type === "symlink" ? "to" : "" };
      return { entry, content: Buffer.alloc(0) };
    }
    // Only the first two may be large.
    const size = sizes[random(sizes.length - (index < 2 ? 0 : 3))] ?? 0;
    return fileOf(path, random(2) === 0 ? randomBytes(size) : Buffer.alloc(size, `${path}\n`));
  });
}

async function checkComposed(composed: Packed, items: readonly Item[]): Promise<void> {
  const expected = Buffer.concat([tarOf(items), tarEnd]);
  assert.ok(gunzipSync(composed.archive).equals(expected), "it unpacks to what was kept and what came");
  const entries = [...composed.table.entries()];
  assert.is(entries.length, items.length);
  let at = 0;
  for (const [index, { entry, content }] of items.entries()) {
    const listed = entries[index];
    if (listed === undefined) throw new Error("there is no such entry");
    const { sha256, at: listedAt, ...shown } = listed;
    assert.equal([shown, listedAt], [entry, at]);
    const digest = createHash("sha256").update(content).digest("hex");
    assert.is(sha256, entry.type === "file" ? digest : undefined);
    at += writeTarHeader(entry).length + content.length + tarPadding(content.length).length;
    if (entry.size === 0) continue;
    const { from, to, tarFrom } = packedRange(composed.table.members, contentRange(listed));
    const reader = createFileReader(pieces(composed.archive.subarray(from, to)), tarFrom);
    const parts: Uint8Array[] = [];
    for await (const part of reader.read(listed)) parts.push(part);
    assert.ok(Buffer.concat(parts).equals(content), entry.path);
  }
}

test("is what a whole save would have been, after each of some changes", async () => {
  for (let seed = 1; seed <= 6; seed += 1) {
    const random = createRandom(seed);
    let items = randomItems(random, "a");
    let archive = await pack(items);
    for (let change = 0; change < 5; change += 1) {
      const share = [1, 2, 10, 100][random(4)] ?? 1;
      const kept = new Set([...items.keys()].filter(() => random(share) > 0 || share === 1));
      if (random(6) === 0) kept.clear();
      const come = random(5) === 0 ? [] : randomItems(random, `${"bcdef"[change]}`);
      archive = await compose(archive, kept, await pack(come));
      items = [...items.filter((_, index) => kept.has(index)), ...come];
      await checkComposed(archive, items);
    }
  }
});

test("members of which all stays are copied as they are", async () => {
  const items = Array.from({ length: 100 }, (_, index) => fileOf(`data/${index}`, randomBytes(64 * KiB)));
  const base = await pack(items);
  const change = await pack([fileOf("data/50", randomBytes(64 * KiB))]);
  const composed = await compose(base, new Set([...items.keys()].filter((index) => index !== 50)), change);
  const { members } = base.table;
  const copied = composed.table.members.filter(
    ({ bytes }, index) => bytes === members[index + (index < 50 ? 0 : 1)]?.bytes,
  );
  assert.ok(copied.length >= 98, `${copied.length}`);
});

test("an archive that is not its table's is refused, and so is one that is cut off", async () => {
  const base = await pack(Array.from({ length: 5 }, (_, index) => fileOf(`data/${index}`, randomBytes(20 * KiB))));
  const other = await pack([fileOf("data/x", randomBytes(100))]);
  const kept = new Set([0, 2]);
  for (const archive of [other.archive, base.archive.subarray(0, 30 * KiB), randomBytes(base.archive.length)]) {
    const error = await compose({ ...base, archive }, kept, other).catch(String);
    assert.match(String(error), /ArchiveError/);
  }
});

test.run();
