// @runtimes bun node deno
// Archives that are unpacked into a folder of an instance by the real program, which runs on this machine.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { gunzipSync, gzipSync } from "node:zlib";
import * as assert from "uvu/assert";
import { eventually } from "../../../eventually.ts";
import { type RawEntry, rawTar } from "../../archive/raw-tar.ts";
import type { TestEdge } from "../test-edge.ts";
import { FILES, filesSuite, LIST, MAKE_TREE, respond } from "./files-suite.ts";

const { test, open, inFolder, below, run, archiveOf, swapping } = filesSuite("an archive that is unpacked");
const MIB = 2 ** 20;

async function unpack(edge: TestEdge, folder: string, archive: Uint8Array, headers: Record<string, string> = {}) {
  const response = await respond(edge, `PUT ${FILES}/${below(folder)}?unpack=true`, { body: archive, headers });
  const json = (await response.json()) as { error?: string; unpacked?: object; type?: string; path?: string };
  return { status: response.status, ...json };
}

test("what was packed is unpacked as the same tree, without setuid", async () => {
  const edge = open();
  await run(edge, MAKE_TREE);
  const archive = await archiveOf(edge, "tree");
  const { status, error, unpacked, type, path } = await unpack(edge, "new/folders/tree", archive);
  assert.equal([status, error, type, path], [200, undefined, "directory", below("new/folders/tree")]);
  assert.equal(unpacked, { files: 7, folders: 6, links: 3, bytes: 3_000_000 + 7 + 7 + 3 + 1 + 1 });
  const expected = (await run(edge, `cd tree; ${LIST}`)).replaceAll("|f|4751|", "|f|751|");
  assert.is(await run(edge, `cd new/folders/tree; ${LIST}`), expected);
  await run(edge, "cd tree; find . -type f -exec cmp {} ../new/folders/tree/{} \\;");
  assert.equal(readdirSync(inFolder()).sort(), ["new", "tree"]);
});

test("archives of the system's tar: with and without gzip, of GNU and POSIX, and empty", async () => {
  const edge = open();
  await run(edge, MAKE_TREE);
  const expected = (await run(edge, `rm tree/pipe; cd tree; ${LIST}`)).replaceAll("|f|4751|", "|f|751|");
  for (const [name, words] of [
    ["gnu", ["--format=gnu", "."]],
    ["posix", ["--format=posix", "--gzip", "."]],
    [
      "names",
      ["--format=pax", ...readdirSync(inFolder("tree"), { encoding: "latin1" }).filter((one) => /^\w+$/.test(one))],
    ],
  ] as const) {
    const archive = execFileSync("tar", ["--create", "-C", inFolder("tree"), ...words], { maxBuffer: 10 * MIB });
    const { status, error } = await unpack(edge, name, archive);
    assert.is(status, 200, error);
    if (name === "names") assert.is(readFileSync(inFolder("names/file"), "utf8"), "content");
    else assert.is(await run(edge, `cd ${name}; ${LIST}`), expected);
  }
  const { status, unpacked } = await unpack(edge, "empty", rawTar([]));
  assert.equal([status, unpacked], [200, { files: 0, folders: 0, links: 0, bytes: 0 }]);
  assert.is(
    gunzipSync(await archiveOf(edge, "empty")).findIndex((byte) => byte !== 0),
    -1,
  );
});

test("files are replaced, folders merged, and a link is replaced and not followed", async () => {
  const edge = open();
  for (const folder of ["target/kept", "target/both", "elsewhere"]) mkdirSync(inFolder(folder), { recursive: true });
  writeFileSync(inFolder("target/kept/file"), "kept");
  writeFileSync(inFolder("target/both/old"), "old");
  writeFileSync(inFolder("elsewhere/file"), "elsewhere");
  linkSync(inFolder("elsewhere/file"), inFolder("target/both/replaced"));
  symlinkSync(inFolder("elsewhere"), inFolder("target/folder"));
  symlinkSync(inFolder("elsewhere/file"), inFolder("target/both/link"));
  chmodSync(inFolder("target/both"), 0o750);
  symlinkSync(inFolder("target"), inFolder("to-target"));
  const content = Buffer.from("new");
  const { status, error } = await unpack(
    edge,
    "to-target",
    rawTar([
      // Before the one that it lies in.
      { name: "late/in/", type: "5", mode: 0o700 },
      { name: "late/", type: "5", mode: 0o600 },
      { name: "both/", type: "5", mode: 0o500 },
      { name: "both/replaced", content },
      { name: "both/link", content },
      { name: "both/new/", type: "5", mode: 0o555 },
      { name: "both/new/file", content },
      { name: "folder/file", content },
    ]),
  );
  assert.is(status, 200, error);
  const listed = await run(edge, "cd target; find . -mindepth 1 -printf '%P %y %m\\n' | LC_ALL=C sort");
  assert.equal(listed.trim().split("\n"), [
    "both d 750",
    "both/link f 644",
    "both/new d 555",
    "both/new/file f 644",
    "both/old f 644",
    "both/replaced f 644",
    "folder d 755",
    "folder/file f 644",
    "kept d 755",
    "kept/file f 644",
    "late d 600",
    "late/in d 700",
  ]);
  assert.equal(readdirSync(inFolder("elsewhere")), ["file"]);
  assert.is(readFileSync(inFolder("elsewhere/file"), "utf8"), "elsewhere");
});

test("what cannot be unpacked changes nothing, and says why", async () => {
  const edge = open();
  mkdirSync(inFolder("target/folder"), { recursive: true });
  writeFileSync(inFolder("target/file"), "old");
  const before = () => run(edge, "cd target; find . -mindepth 1 -printf '%P %y %m %T@\\n'; cat file; cd ..; ls -A");
  const expected = await before();
  const content = Buffer.from("new");
  const random = randomBytes(MIB);
  const one: RawEntry[] = [{ name: "file", content }];
  const gzip = gzipSync(rawTar([...one, { name: "random", content: random }]));
  const damaged = Buffer.from(gzip);
  damaged[500_000] = (damaged[500_000] ?? 0) ^ 0xff;
  const cases: [name: string, archive: Uint8Array, status: number, says: RegExp][] = [
    [
      "a folder for a file",
      rawTar([...one, { name: "folder", content }]),
      409,
      /\/target: folder: a folder is there, and the/,
    ],
    ["a file for a folder", rawTar([...one, { name: "file/a", content }]), 400, /lies below "file", a file/],
    [
      "a file in a file",
      rawTar([
        { name: "new", content },
        { name: "file/a", content },
      ]),
      409,
      /target: file: no folder is there/,
    ],
    ["a name that goes up", rawTar([...one, { name: "../out", content }]), 400, /"\.\.\/out" has no plain path/],
    ["an absolute name", rawTar([...one, { name: "/tmp/out", content }]), 400, /"\/tmp\/out" has an absolute path/],
    [
      "behind a link",
      rawTar([...one, { name: "l", type: "2", target: "/" }, { name: "l/a", content }]),
      400,
      /lies behind a symlink/,
    ],
    ["a device", rawTar([...one, { name: "zero", type: "3" }]), 400, /"zero" is a character device/],
    ["a pipe", rawTar([...one, { name: "pipe", type: "6" }]), 400, /"pipe" is a named pipe/],
    [
      "a link to nothing",
      rawTar([...one, { name: "l", type: "1", target: "none" }]),
      400,
      /points at "none", which is not before/,
    ],
    [
      "a deep name",
      rawTar([
        { name: "long", type: "L", content: Buffer.from(`${"d/".repeat(128)}f\0`) },
        { name: "f", content },
      ]),
      413,
      /more than 128 names/,
    ],
    [
      "a cut archive",
      rawTar(one).subarray(0, 1024),
      400,
      /^body: must be a tar or tar.gz: it is cut off before its end$/,
    ],
    ["cut compression", gzip.subarray(0, 900_000), 400, /its compression is damaged or cut off/],
    ["damaged compression", damaged, 400, /damaged|checksum|is no number/],
    ["more after the end", Buffer.concat([rawTar(one), random]), 400, /goes on after its end/],
    ["no archive", Buffer.from("hello".repeat(1000)), 400, /^body: must be a tar or tar.gz: /],
    ["nothing", Buffer.alloc(0), 400, /cut off before its end/],
  ];
  for (const [name, archive, status, says] of cases) {
    const answer = await unpack(edge, "target", archive);
    assert.is(answer.status, status, `${name}: ${answer.error}`);
    assert.match(answer.error ?? "", says, name);
    // A call that was cut off ends after its answer.
    await eventually(async () => (await before()) === expected);
  }
  const tar = rawTar(one);
  assert.match((await unpack(edge, "target/file", tar)).error ?? "", /file: it is no folder$/);
  assert.match((await unpack(edge, "target/file/a", tar)).error ?? "", /file\/a: not a directory$/);
  assert.is((await unpack(edge, "target", tar, { "if-none-match": "*" })).status, 409);
  const both = await respond(edge, `PUT ${FILES}/${below("target")}?unpack=true&mode=0600`, { body: tar });
  assert.is(both.status, 400);
  assert.is(await before(), expected);
});

test("an upload that breaks off leaves nothing, and its part is not listed", async () => {
  const edge = open();
  mkdirSync(inFolder("target"));
  let send: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      send = controller;
    },
  });
  const answer = respond(edge, `PUT ${FILES}/${below("target")}?unpack=true`, { body });
  const archive = rawTar([
    { name: "closed/", type: "5", mode: 0 },
    { name: "closed/file", content: randomBytes(MIB) },
  ]);
  send?.enqueue(archive.subarray(0, MIB));
  const part = () => readdirSync(inFolder("target"))[0] ?? "none";
  await eventually(() => existsSync(inFolder("target", part(), "closed/file")));
  assert.equal((await edge.call(`GET ${FILES}?folder=${below("target")}`)).json, []);
  send?.error(new Error("gone"));
  assert.is((await answer).status, 400);
  await eventually(() => readdirSync(inFolder("target")).length === 0);
});

test("nothing is written outside while a folder of the target is replaced by a link", async () => {
  const edge = open();
  mkdirSync(inFolder("elsewhere"));
  writeFileSync(inFolder("elsewhere/file"), "outside");
  mkdirSync(inFolder("target/swapped"), { recursive: true });
  const names = Array.from({ length: 200 }, (_, number) => `swapped/${number}`);
  for (const name of names) writeFileSync(inFolder("target", name), "old");
  const archive = rawTar(names.map((name) => ({ name, content: Buffer.from("new") })));
  let total = 0;
  for (let round = 0; round < 20; round += 1) {
    // It can fail.
    const unpacked = unpack(edge, "target", archive);
    total += (await swapping({ folder: "target/swapped", elsewhere: "elsewhere" }, unpacked))[1];
    assert.equal(readdirSync(inFolder("elsewhere")), ["file"]);
  }
  console.log(`note: a folder was replaced ${total} times`);
});

test.run();
