import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, gzipSync } from "node:zlib";
import { list, type ReadEntry } from "tar";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { createArchiveCheck } from "../../../crds/archive/archive-check.ts";
import { checkArchive, limits, refusal } from "./check-archive.ts";
import { type RawEntry, rawEntry, rawTar, tarEnd } from "./raw-tar.ts";

const content = Buffer.from("content");

/** As the tar package reads an archive, which shares nothing with the check. */
async function listed(archive: Buffer): Promise<string[]> {
  const lines: string[] = [];
  // To the tar package an archive of nothing is none.
  if (archive.every((byte) => byte === 0)) return lines;
  const parser = list({
    strict: true,
    onReadEntry: (entry: ReadEntry) => lines.push(`${entry.type} ${entry.path} ${entry.linkpath ?? ""}`.trim()),
  });
  await pipeline(Readable.from([archive]), parser);
  return lines;
}

const good: [string, RawEntry[]][] = [
  ["nothing", []],
  [
    "directories, files and an empty file",
    [{ name: "data/", type: "5" }, { name: "data/a", content }, { name: "data/b" }],
  ],
  [
    "a directory with a space",
    [
      { name: "home/a b/", type: "5" },
      { name: "home/a b/c", content },
    ],
  ],
  [
    "a symlink that is absolute, upward or dangling",
    [
      { name: "data/a", type: "2", target: "/usr/bin/env" },
      { name: "data/b", type: "2", target: "../../../../etc" },
      { name: "data/c", type: "2", target: "nowhere" },
    ],
  ],
  [
    "a hard link",
    [
      { name: "data/a", content },
      { name: "data/b", type: "1", target: "data/a" },
    ],
  ],
  [
    "dots that are names",
    [
      { name: "data/...", content },
      { name: "data/..a", content },
      { name: "data/a..", content },
    ],
  ],
  ["a name with a line break", [{ name: "data/a\nb", content }]],
  ["a path in two fields", [{ name: "b", prefix: "data/a", content }]],
  [
    "a sibling of a symlink with a longer name",
    [
      { name: "data/a", type: "2", target: "/etc" },
      { name: "data/ab", content },
    ],
  ],
  [
    "a long name of GNU's",
    [
      { name: "././@LongLink", type: "L", content: Buffer.from(`data/${"x".repeat(200)}\0`) },
      { name: "data/short", content },
    ],
  ],
];

for (const [what, entries] of good) {
  test(`createArchiveCheck lets through ${what}`, async () => {
    const archive = rawTar(entries);
    const out = await checkArchive(archive);
    assert.equal(await listed(out), await listed(archive));
    for (const pieceBytes of [1, 7, 511, 512, 513, 100_000]) {
      assert.equal(await checkArchive(archive, { pieceBytes }), out, `in pieces of ${pieceBytes}`);
    }
    assert.equal(await checkArchive(out), out, "what came out stays as it is");
  });
}

const hostile: [string, RawEntry[], RegExp][] = [
  ["an absolute path", [{ name: "/data/a", content }], /absolute/],
  ["a path upward", [{ name: "data/../etc/passwd", content }], /no plain path/],
  ["only upward", [{ name: "..", content }], /no plain path/],
  ["a path with a dot", [{ name: "data/./a", content }], /no plain path/],
  ["a path with an empty part", [{ name: "data//a", content }], /no plain path/],
  ["no name", [{ name: "", content }], /no plain path/],
  ["a file that looks like a directory", [{ name: "data/a/", content }], /no plain path/],
  ["a prefix upward", [{ name: "a", prefix: "data/..", content }], /no plain path/],
  [
    "a long name upward",
    [
      { name: "././@LongLink", type: "L", content: Buffer.from(`data/../${"x".repeat(200)}\0`) },
      { name: "data/a", content },
    ],
    /no plain path/,
  ],
  ["a file elsewhere", [{ name: "etc/passwd", content }], /outside/],
  ["a directory above", [{ name: "home/", type: "5" }], /outside/],
  ["a neighbour whose name begins alike", [{ name: "database/a", content }], /outside/],
  ["a character device", [{ name: "data/a", type: "3" }], /character device/],
  ["a block device", [{ name: "data/a", type: "4" }], /block device/],
  ["a named pipe", [{ name: "data/a", type: "6" }], /named pipe/],
  ["a sparse file of GNU's", [{ name: "data/a", type: "S" }], /unknown type/],
  ["a header of pax", [{ name: "data/a", type: "x", content: Buffer.from("20 path=/etc/passwd\n") }], /unknown type/],
  ["a global header of pax", [{ name: "data/a", type: "g", content }], /unknown type/],
  [
    "a file behind a symlink",
    [
      { name: "data/a", type: "2", target: "/etc" },
      { name: "data/a/passwd", content },
    ],
    /behind a symlink/,
  ],
  [
    "a file behind a symlink inside",
    [
      { name: "data/b/", type: "5" },
      { name: "data/b/a", type: "2", target: "." },
      { name: "data/b/a/c/d", content },
    ],
    /behind a symlink/,
  ],
  ["a symlink in the place of an overlay directory", [{ name: "data", type: "2", target: "/" }], /takes the place/],
  ["a file in the place of an overlay directory", [{ name: "data", content }], /takes the place/],
  ["a hard link out", [{ name: "data/a", type: "1", target: "etc/shadow" }], /outside/],
  ["a hard link to an absolute path", [{ name: "data/a", type: "1", target: "/data/b" }], /absolute/],
  ["a hard link upward", [{ name: "data/a", type: "1", target: "data/../etc/shadow" }], /no plain path/],
  [
    "a hard link through a symlink",
    [
      { name: "data/a", type: "2", target: "/etc" },
      { name: "data/b", type: "1", target: "data/a/shadow" },
    ],
    /behind a symlink/,
  ],
  [
    "a file behind another name of a symlink",
    [
      { name: "data/a", type: "2", target: "/etc" },
      { name: "data/b", type: "1", target: "data/a" },
      { name: "data/c", type: "1", target: "data/b" },
      { name: "data/c/passwd", content },
    ],
    /behind a symlink/,
  ],
  ["a hard link with a content", [{ name: "data/a", type: "1", target: "data/b", content }], /with a content/],
  ["a directory with a content", [{ name: "data/a/", type: "5", content }], /with a content/],
  ["a symlink without a target", [{ name: "data/a", type: "2" }], /no target/],
  [
    "two long names for one entry",
    [
      { name: "././@LongLink", type: "L", content: Buffer.from("data/a\0") },
      { name: "././@LongLink", type: "L", content: Buffer.from("data/b\0") },
      { name: "data/c", content },
    ],
    /two names/,
  ],
];

const unrestorable: [string, RawEntry[], RegExp][] = [
  ["a symlink twice", twice({ type: "2", target: "x" }, { type: "2", target: "x" }), /twice, as a symlink and then/],
  ["a file in the place of a symlink", twice({ type: "2", target: "x" }, { content }), /a symlink and then as a file/],
  ["a symlink in the place of a file", twice({ content }, { type: "2", target: "x" }), /a file and then as a symlink/],
  ["a directory in the place of a file", twice({ content }, { type: "5" }), /a file and then as a directory/],
  ["a file in the place of a directory", twice({ type: "5" }, { content }), /a directory and then as a file/],
  [
    "a file twice that has another name by then",
    [
      { name: "data/x", content },
      { name: "data/y", type: "1", target: "data/x" },
      { name: "data/x", content },
    ],
    /"data\/x" twice, with a hard link/,
  ],
  [
    "a file in the place of a hard link",
    [
      { name: "data/x", content },
      { name: "data/y", type: "1", target: "data/x" },
      { name: "data/y", content },
    ],
    /"data\/y" twice, with a hard link/,
  ],
  [
    "a hard link twice",
    [{ name: "data/x", content }, ...twice({ type: "1", target: "data/x" }, { type: "1", target: "data/x" })],
    /"data\/a" twice/,
  ],
  [
    "a file below a file",
    [
      { name: "data/a", content },
      { name: "data/a/b/c", content },
    ],
    /below "data\/a", a file/,
  ],
  [
    "a file in the place of the folder of one",
    [
      { name: "data/a/b", content },
      { name: "data/a", content },
    ],
    /twice/,
  ],
];

function twice(first: Partial<RawEntry>, second: Partial<RawEntry>): RawEntry[] {
  return [first, second].map((entry) => ({ name: "data/a", ...entry }));
}

test("createArchiveCheck refuses a hard link to a name that is not before it, or leaves it out", async () => {
  const link = { name: "data/b", type: "1", target: "data/a" };
  const folder = { name: "data/a", type: "5" };
  const file = { name: "data/a", content };
  for (const entries of [[link], [link, file], [folder, link]]) {
    assert.match(await refusal(rawTar(entries)), /^Corrupt: the hard link "data\/b" points at "data\/a", which is not/);
    const left: unknown[] = [];
    await checkArchive(rawTar([...entries, { name: "data/c", type: "1", target: "data/b" }]), {
      onDangling: (dangling) => left.push(dangling),
    });
    assert.equal(left, [
      { path: "data/b", target: "data/a" },
      { path: "data/c", target: "data/b" },
    ]);
  }
});

test("createArchiveCheck takes a file and a directory that come twice, as from tar -r", async () => {
  const folder = { name: "data/f", type: "5" };
  const file = { name: "data/f/a", content };
  const archive = rawTar([folder, file, folder, file, { name: "data/b", type: "1", target: "data/f/a" }]);
  assert.equal((await listed(await checkArchive(archive))).length, 5);
});

for (const [what, entries, reason] of [...hostile, ...unrestorable]) {
  test(`createArchiveCheck refuses ${what}`, async () => {
    const refused = await refusal(rawTar([{ name: "data/before", content }, ...entries]));
    assert.match(refused, /^Hostile: /);
    assert.match(refused, reason);
  });
}

test("createArchiveCheck lets nothing of a refused entry out", async () => {
  const check = createArchiveCheck({ roots: ["data"], limits });
  const out: Buffer[] = [];
  check.stream.on("data", (chunk: Buffer) => out.push(chunk));
  const archive = rawTar([
    { name: "data/good", content },
    { name: "../evil", content: Buffer.from("evil") },
  ]);
  await pipeline(Readable.from([archive]), check.stream).catch(() => undefined);
  assert.match(Buffer.concat(out).toString("latin1"), /data\/good/);
  assert.not.match(Buffer.concat(out).toString("latin1"), /evil/);
});

test("createArchiveCheck leaves named pipes out, with the links to them, where it is told to", async () => {
  const entries: RawEntry[] = [
    { name: "data/pipe", type: "6" },
    { name: "data/link", type: "1", target: "data/pipe" },
    { name: "data/a", content },
  ];
  assert.equal(await listed(await checkArchive(rawTar(entries), { leaveOutPipes: true })), ["File data/a"]);
});

const broken: [string, Buffer, RegExp][] = [
  ["without its end", rawEntry({ name: "data/a", content }), /cut off/],
  ["with half of its end", Buffer.concat([rawEntry({ name: "data/a", content }), Buffer.alloc(512)]), /cut off/],
  ["cut off in a content", rawTar([{ name: "data/a", content: Buffer.alloc(5000, 1) }]).subarray(0, 3000), /cut off/],
  ["cut off in a header", rawTar([{ name: "data/a" }]).subarray(0, 300), /cut off/],
  ["of no bytes", Buffer.alloc(0), /cut off/],
  ["that goes on after its end", Buffer.concat([tarEnd, Buffer.from("more")]), /goes on/],
  ["with a header after a block of zeros", Buffer.concat([Buffer.alloc(512), rawTar([{ name: "data/a" }])]), /goes on/],
  ["with a changed header", Buffer.concat([Buffer.from("x"), rawTar([{ name: "data/a" }]).subarray(1)]), /checksum/],
  ["that is text", Buffer.alloc(2048, "text"), /no number/],
  [
    "with a long name for nothing",
    rawTar([{ name: "l", type: "L", content: Buffer.from("data/a\0") }]),
    /without an entry/,
  ],
];

for (const [what, archive, reason] of broken) {
  test(`createArchiveCheck refuses an archive ${what}`, async () => {
    const refused = await refusal(archive);
    assert.match(refused, /^Corrupt: /);
    assert.match(refused, reason);
  });
}

test("createArchiveCheck refuses what is too much", async () => {
  const many = rawTar(Array.from({ length: 1001 }, (_, index) => ({ name: `data/${index}` })));
  assert.match(await refusal(many), /^TooLarge: it holds more than 1000 entries/);
  const big = rawTar([{ name: "data/a", content: Buffer.alloc(20_000) }]);
  assert.match(await refusal(big, { limits: { ...limits, maxBytes: 10_000 } }), /^TooLarge: .* 10000 bytes/);
  const long = Buffer.from(`data/${"x/".repeat(3000)}x\0`);
  const longName = rawTar([{ name: "l", type: "L", content: long }, { name: "data/a" }]);
  assert.match(await refusal(longName), /^TooLarge: it holds a path that is too long/);
  const links = rawTar(Array.from({ length: 900 }, (_, index) => ({ name: `data/${index}`, type: "2", target: "a" })));
  assert.match(await refusal(links, { limits: { ...limits, maxRememberedBytes: 50_000 } }), /^TooLarge: the names/);
  const folders = rawTar(
    Array.from({ length: 20 }, (_, index) => ({ name: `data/${index}${"/a".repeat(40)}`, type: "2", target: "a" })),
  );
  assert.is(await refusal(folders), "not refused");
  assert.match(await refusal(folders, { limits: { ...limits, maxEntries: 500 } }), /^TooLarge: .* 500 folders/);
  const holes = rawTar([
    { name: "data/a", content: Buffer.alloc(4000) },
    { name: "data/b", content: Buffer.alloc(97) },
  ]);
  assert.is(await refusal(holes, { limits: { ...limits, maxContentBytes: 4097 } }), "not refused");
  const tooMuch = /^TooLarge: its files have more than 4096 bytes.*resources\.diskGb/;
  assert.match(await refusal(holes, { limits: { ...limits, maxContentBytes: 4096 } }), tooMuch);
  const named = rawTar(Array.from({ length: 900 }, (_, index) => ({ name: `data/${index}`, type: "5" })));
  const names = /^TooLarge: the names of its directories/;
  assert.match(await refusal(named, { limits: { ...limits, maxRememberedBytes: 50_000 } }), names);
  const lying = rawTar([{ name: "data/a", size: 8 ** 11 - 1 }]);
  assert.match(await refusal(lying), /^Corrupt: it is cut off/);
});

test("createArchiveCheck stops a decompression bomb at its limit, in little memory", async () => {
  // 4 GiB of zeros in 4 MiB: members of gzip one after another are one stream.
  const header = rawEntry({ name: "data/bomb", size: 8 ** 11 - 1 });
  const member = gzipSync(Buffer.alloc(64 * 1024 * 1024));
  async function* bomb(): AsyncGenerator<Buffer> {
    yield gzipSync(header);
    for (let count = 0; count < 64; count += 1) yield member;
  }
  const check = createArchiveCheck({ roots: ["data"], limits: { ...limits, maxBytes: 256 * 1024 * 1024 } });
  check.stream.resume();
  const before = process.memoryUsage().rss;
  const error = await pipeline(bomb(), createGunzip(), check.stream).catch((cause: Error) => cause);
  const grown = (process.memoryUsage().rss - before) / 1024 ** 2;
  assert.match(String(error), /it holds more than 268435456 bytes/);
  assert.ok(grown < 100, `${grown} MiB more than before`);
});

test.run();
