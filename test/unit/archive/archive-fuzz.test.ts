import { createHash } from "node:crypto";
import { gunzipSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { readTarHeader, type TarEntry, tarPadding, writeTarHeader } from "../../../crds/archive/tar-header.ts";
import { checkArchive, refusal } from "./check-archive.ts";
import { type RawEntry, rawEntry, tarEnd } from "./raw-tar.ts";

const part = fc
  .uint8Array({ minLength: 1, maxLength: 120 })
  .map((bytes) => Buffer.from(bytes).toString("latin1").replace(/[\0/]/g, "_"))
  .filter((name) => name !== "." && name !== "..");
const path = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => `data/${parts.join("/")}`);
const numbers = {
  mode: fc.integer({ min: 0, max: 0o7777 }),
  uid: fc.integer({ min: 0, max: 2 ** 32 - 2 }),
  gid: fc.integer({ min: 0, max: 2 ** 32 - 2 }),
  mtime: fc.integer({ min: 0, max: 2 ** 40 }),
};
interface Written {
  readonly entry: TarEntry;
  readonly content: Buffer;
}
const file = fc.record({ path, content: fc.uint8Array({ maxLength: 1500 }), ...numbers }).map(
  ({ content, ...fields }): Written => ({
    entry: { type: "file", target: "", size: content.length, ...fields },
    content: Buffer.from(content),
  }),
);
const link = fc
  .record({ path, target: path, type: fc.constantFrom("symlink" as const, "hardlink" as const), ...numbers })
  .map((fields): Written => ({ entry: { size: 0, ...fields }, content: Buffer.alloc(0) }));
const directory = fc
  .record({ path, ...numbers })
  .map(
    (fields): Written => ({ entry: { type: "directory", size: 0, target: "", ...fields }, content: Buffer.alloc(0) }),
  );
const tree = fc.array(fc.oneof(file, link, directory), { maxLength: 12 });

/** The entries that can be unpacked behind those before them. */
function unpackable(written: readonly Written[]): Written[] {
  const kinds = new Map([["data", "directory"]]);
  return written.filter(({ entry: { path, type, target } }) => {
    const parts = path.split("/");
    const folders = parts.slice(1).map((_, index) => parts.slice(0, index + 1).join("/"));
    if (folders.some((folder) => (kinds.get(folder) ?? "directory") !== "directory")) return false;
    const kind = type === "hardlink" ? kinds.get(target) : type;
    if (kind === undefined || (type === "hardlink" && kind === "directory")) return false;
    if (kinds.has(path) && (kinds.get(path) !== kind || !["file", "directory"].includes(type))) return false;
    for (const folder of folders) kinds.set(folder, "directory");
    kinds.set(path, kind);
    return true;
  });
}

function archiveOf(written: readonly Written[]): Buffer {
  const parts = written.flatMap(({ entry, content }) => [writeTarHeader(entry), content, tarPadding(content.length)]);
  return Buffer.concat([...parts, tarEnd]);
}

const runs = { numRuns: 300 };

test("writeTarHeader and the check agree on every entry there can be", async () => {
  await fc.assert(
    fc.asyncProperty(tree, fc.integer({ min: 1, max: 2000 }), async (written, pieceBytes) => {
      const seen: TarEntry[] = [];
      const rewrite = (entry: TarEntry): TarEntry => {
        seen.push(entry);
        return entry;
      };
      const archive = archiveOf(written);
      const out = await checkArchive(archive, { pieceBytes, rewrite }).catch((error: Error) => error);
      if (out instanceof Error) assert.match(out.message, /behind a symlink|lies below|twice|not before it/);
      else assert.equal(out, archive);
      assert.is(out instanceof Error, unpackable(written).length < written.length);
      assert.equal(
        seen,
        written.slice(0, seen.length).map(({ entry }) => entry),
      );
    }),
    runs,
  );
});

test("changed bytes of an archive never pass as what was saved", async () => {
  const flips = fc.array(fc.record({ at: fc.nat(), bit: fc.integer({ min: 0, max: 7 }) }), {
    minLength: 1,
    maxLength: 4,
  });
  let changed = 0;
  await fc.assert(
    fc.asyncProperty(tree, flips, async (written, changes) => {
      const good = gzipSync(archiveOf(written));
      const digest = createHash("sha256").update(good).digest("hex");
      const bad = Buffer.from(good);
      for (const { at, bit } of changes) bad[at % bad.length] = (bad[at % bad.length] ?? 0) ^ (1 << bit);
      if (bad.equals(good)) return;
      changed += 1;
      const passes = createHash("sha256").update(bad).digest("hex") === digest;
      assert.not.ok(passes);
      let archive: Buffer | undefined;
      try {
        archive = gunzipSync(bad);
      } catch {
        return;
      }
      // Whatever it has become, the check ends, and nothing comes out of it that is outside.
      const out = await checkArchive(archive).catch(() => Buffer.alloc(0));
      if (out.length > 0) await checkArchive(out);
    }),
    runs,
  );
  assert.ok(changed > 200);
});

test("changed bytes of a tar archive are refused or still name nothing outside", async () => {
  await fc.assert(
    fc.asyncProperty(
      tree,
      fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 6 }),
      async (written, edits) => {
        const archive = archiveOf(written);
        for (const [at, byte] of edits) archive[at % archive.length] = byte;
        const names: string[] = [];
        const collected = await checkArchive(archive, {
          rewrite(entry) {
            names.push(entry.path, ...(entry.type === "hardlink" ? [entry.target] : []));
            return entry;
          },
        }).catch((error: unknown) => error);
        for (const name of names) assert.match(name, /^(data|home\/a b)(\/|$)/s);
        if (collected instanceof Error) assert.is(collected.name, "ArchiveError", String(collected.stack));
      },
    ),
    runs,
  );
});

const evilPath = fc.oneof(
  fc
    .tuple(fc.constantFrom("/", "..", "../", "/etc/", "data/..", "data/../", "data//", "./data/", "etc/"), part)
    .map(([start, end]) => `${start}${start.endsWith("/") ? "" : "/"}${end}`),
  part.filter((name) => name !== "data").map((name) => `${name}/x`),
);
const evil: fc.Arbitrary<RawEntry> = fc.oneof(
  fc
    .record({ name: evilPath.filter((name) => name.length < 100), type: fc.constantFrom("0", "1", "2", "5", "7") })
    .map((entry) => ({ ...entry, target: "data/a" })),
  fc.record({
    name: fc.constant("data/link"),
    type: fc.constant("1"),
    target: evilPath.filter((name) => name.length < 100),
  }),
  fc.record({
    name: fc.constant("data/special"),
    type: fc.constantFrom(..."346789SxgVMDNAZ!".split("")),
  }),
);

test("a hostile entry is refused wherever it stands", async () => {
  await fc.assert(
    fc.asyncProperty(tree, evil, fc.nat(), async (written, entry, at) => {
      const position = at % (written.length + 1);
      const before = unpackable(written.slice(0, position).filter(({ entry: { type } }) => type !== "symlink"));
      const archive = Buffer.concat([
        archiveOf(before).subarray(0, -tarEnd.length),
        rawEntry(entry),
        archiveOf(written.slice(position)),
      ]);
      assert.match(await refusal(archive), /^Hostile: /);
    }),
    runs,
  );
});

test("readTarHeader reads what writeTarHeader writes, large numbers included", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }), (size) => {
      const fields = { path: "data/a", mode: 0o644, uid: 1_000_650_000, gid: 0, mtime: 1, target: "" };
      assert.is(readTarHeader(writeTarHeader({ ...fields, type: "file", size }))?.size, size);
    }),
  );
});

test.run();
