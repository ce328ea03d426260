// @runtimes bun node deno
// Folders of an instance as archives, packed by the real program, which runs on this machine.
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appendFileSync, mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import * as assert from "uvu/assert";
import { errorOf } from "../../../error-of.ts";
import { eventually } from "../../../eventually.ts";
import { FILES, filesSuite, LIST, MAKE_TREE } from "./files-suite.ts";

const { test, open, inFolder, below, run, download, archiveOf, swapping } = filesSuite("a folder as an archive");
const MIB = 2 ** 20;

test("the system's tar unpacks a folder as it is", async () => {
  const edge = open();
  await run(edge, MAKE_TREE);
  const response = await download(edge, "tree");
  assert.is(response.headers.get("content-type"), "application/gzip");
  assert.is(response.headers.get("content-disposition"), 'attachment; filename="tree.tar.gz"');
  writeFileSync(inFolder("tree.tar.gz"), Buffer.from(await response.arrayBuffer()));
  mkdirSync(inFolder("unpacked"));
  execFileSync("tar", [
    "--extract",
    "--preserve-permissions",
    "-zf",
    inFolder("tree.tar.gz"),
    "-C",
    inFolder("unpacked"),
  ]);
  const expected = await run(edge, `cd tree; ${LIST}`);
  assert.match(expected, /^file\|f\|4751\|1111111111\|\|7$/m);
  assert.is(await run(edge, `cd unpacked; ${LIST}`), expected);
  await run(edge, "cd tree; find . -type f -exec cmp {} ../unpacked/{} \\;");
});

test("a file that grows has the size of before, and one that shrinks breaks the archive off", async () => {
  const edge = open();
  mkdirSync(inFolder("busy"));
  const bytes = randomBytes(8 * MIB);
  writeFileSync(inFolder("busy/file"), bytes);
  const half = async (change: () => void) => {
    const reader = (await download(edge, "busy")).body?.getReader();
    const pieces = [(await reader?.read())?.value as Uint8Array];
    change();
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
      if (done || value === undefined) return Buffer.concat(pieces);
      pieces.push(value);
    }
  };
  const tar = gunzipSync(await half(() => appendFileSync(inFolder("busy/file"), "more")));
  assert.ok(tar.subarray(512, 512 + bytes.length).equals(bytes));
  assert.is(tar.length % 512, 0);
  const error = await errorOf(half(() => truncateSync(inFolder("busy/file"), 10)));
  assert.match(String(error), /\/busy: file: it has become shorter while it was read/);
});

test("nothing from outside gets into an archive while a folder is replaced by a link", async () => {
  const edge = open();
  mkdirSync(inFolder("elsewhere"));
  writeFileSync(inFolder("elsewhere/secret"), "outside");
  mkdirSync(inFolder("source/swapped"), { recursive: true });
  for (let number = 0; number < 200; number += 1) writeFileSync(inFolder("source/swapped", String(number)), "inside");
  let total = 0;
  for (let round = 0; round < 20; round += 1) {
    // It can break off.
    const archive = archiveOf(edge, "source").catch(() => Buffer.alloc(0));
    const [bytes, swaps] = await swapping({ folder: "source/swapped", elsewhere: "elsewhere" }, archive);
    if (bytes.length > 0) assert.not.match(gunzipSync(bytes).toString("latin1"), /secret|outside/);
    total += swaps;
  }
  console.log(`note: a folder was replaced ${total} times`);
});

test("few archives are packed at once, and what is no folder is refused", async () => {
  const edge = open();
  mkdirSync(inFolder("large"));
  writeFileSync(inFolder("large/file"), randomBytes(4 * MIB));
  const slow = await Promise.all(Array.from({ length: 4 }, () => download(edge, "large")));
  const { status: busy, error: why } = await edge.call(`GET ${FILES}/${below("large")}?archive=tar.gz`);
  assert.is(busy, 409);
  assert.match(why ?? "", /4 archives are packed or unpacked already; try again$/);
  for (const { body } of slow) await body?.cancel();
  await eventually(async () => (await download(edge, "large")).status === 200);
  for (const [query, status, says] of [
    ["none?archive=tar.gz", 404, /no such file or directory$/],
    ["large/file?archive=tar.gz", 409, /not a directory$/],
    ["large?archive=zip", 400, /^query.archive: must be tar.gz/],
  ] as const) {
    const answer = await edge.call(`GET ${FILES}/${below()}/${query}`);
    assert.is(answer.status, status, answer.text);
    assert.match(answer.error ?? "", says);
  }
});

test.run();
