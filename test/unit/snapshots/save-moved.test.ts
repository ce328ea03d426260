// A program that moves its files while they are read loses none of them.
import { linkSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import { localExec } from "./local-exec.ts";
import { saveSuite } from "./save-suite.ts";

const test = saveSuite("a save of files that move");

const FILES = 50;
const names = Array.from({ length: FILES }, (_, index) => `file-${index}`);

function makeProject(data: string): void {
  mkdirSync(join(data, "project"));
  for (const name of names) writeFileSync(join(data, "project", name), name.repeat(4000));
}

/** A line for `withTar` that does something when tar has written so many bytes, which are more than a pipe holds. */
const during = (act: string, bytes = 300_000) =>
  `"$REAL" "$@" | { "$REAL" dd bs=1000 count=${bytes / 1000} iflag=fullblock status=none; { ${act}; } >&2; "$REAL" cat; }`;
/** Does something the first time only. */
const once = (act: string) => `[ -e once ] || { echo > once; ${act}; }`;

test("a folder that is renamed while it is read is saved whole, by its new name", async (context) => {
  const { data, save, restore, withTar } = context;
  makeProject(data);
  await save(localExec, { busybox: withTar(during(once("mv data/project data/v2"))) });
  const restored = await restore(localExec);
  assert.equal(readdirSync(restored).sort(), ["file", "v2"]);
  for (const name of names) assert.is(readFileSync(join(restored, "v2", name), "utf8"), name.repeat(4000));
});

test("a folder that is renamed in every try fails the save, which names a file and keeps the archive before", async (context) => {
  const { data, save, newest, withTar } = context;
  const before = await save(localExec);
  makeProject(data);
  const toggle = "if [ -e data/project ]; then mv data/project data/v2; else mv data/v2 data/project; fi";
  const error = await save(localExec, { busybox: withTar(during(toggle)) }).catch((cause: unknown) => cause);
  assert.match(String(error), /^ExecFailure: Cannot save the overlay directories: .*"data\/(project|v2)\/file-\d+"/);
  assert.match(String(error), /changed while they were read/);
  assert.equal(await newest(), before);
});

test("a file that moves to a folder which tar has read already is saved", async (context) => {
  const { data, save, restore, withTar } = context;
  for (const name of ["early", "late"]) mkdirSync(join(data, name));
  writeFileSync(join(data, "late/file"), "content");
  const read = `mv data/late/file hidden; "$REAL" "$@"; code=$?; mv hidden data/early/file; exit $code`;
  await save(localExec, { busybox: withTar(`[ -e once ] && exec "$REAL" "$@"; echo > once; ${read}`) });
  assert.is(readFileSync(join(await restore(localExec), "early/file"), "utf8"), "content");
});

test("a file that tar never sees fails the save", async (context) => {
  const { data, save, newest, withTar } = context;
  const before = await save(localExec);
  writeFileSync(join(data, "hidden"), "content");
  const busybox = withTar(`mv data/hidden hidden; "$REAL" "$@"; code=$?; mv hidden data/hidden; exit $code`);
  const error = await save(localExec, { busybox }).catch((cause: unknown) => cause);
  assert.match(String(error), /^ExecFailure: .*"data\/hidden"/);
  assert.equal(await newest(), before);
});

test("many long names are listed beside a large environment", async (context) => {
  const { data, save, busybox } = context;
  const folder = join(data, ...Array.from({ length: 15 }, (_, index) => `${index}`.padEnd(240, "x")));
  mkdirSync(folder, { recursive: true });
  for (let index = 0; index < 800; index += 1) writeFileSync(join(folder, `${index}`), "");
  const large: Exec = ({ command, ...asked }) =>
    localExec({ ...asked, command: [busybox, "env", `LARGE=${"x".repeat(100_000)}`, ...command] });
  assert.is((await save(large)).entries, 817);
});

test("a name with a line break that vanishes is no failure in the next try", async ({ save, withTar }) => {
  const gone = '"$REAL" "$@" "data/two\nlines"';
  await save(localExec, { busybox: withTar(`[ -e once ] && exec "$REAL" "$@"; echo > once; exec ${gone}`) });
  const error = await save(localExec, { busybox: withTar(`exec ${gone}`) }).catch((cause: unknown) => cause);
  assert.match(String(error), /ExecFailure: .*data\/two\nlines: No such file/);
});

test("a file that is written to, and one that is deleted, while tar reads cost no second try", async (context) => {
  const { data, save, restore, withTar, folder } = context;
  for (const name of ["log", "temporary"]) writeFileSync(join(data, name), "a line\n");
  const busybox = withTar(
    'echo >> tries; "$REAL" "$@"; code=$?; echo more >> data/log; rm -f data/temporary; exit $code',
  );
  await save(localExec, { busybox });
  assert.is(readFileSync(join(folder, "tries"), "utf8"), "\n");
  assert.equal(readdirSync(await restore(localExec)).sort(), ["file", "log", "temporary"]);
});

test("a file that appears and is not read costs tries, and then the save is good without it", async (context) => {
  const { save, restore, withTar, folder } = context;
  const busybox = withTar('echo >> tries; "$REAL" "$@"; code=$?; echo > "data/new-$(wc -l < tries)"; exit $code');
  await save(localExec, { busybox });
  const tries = readFileSync(join(folder, "tries"), "utf8").length;
  assert.ok(tries > 1 && tries < 10, String(tries));
  const restored = readdirSync(await restore(localExec));
  for (let count = 1; count < tries; count += 1) assert.ok(restored.includes(`new-${count}`), `new-${count}`);
});

function makeLinked(data: string): void {
  rmSync(join(data, "file"));
  writeFileSync(join(data, "a"), "linked");
  linkSync(join(data, "a"), join(data, "b"));
}

/** As when the first linked name is renamed after tar has looked at it and before tar opens it. */
const WITHOUT_FIRST = `"$REAL" "$@" | {
  "$REAL" dd bs=512 count=1 status=none; "$REAL" dd bs=512 count=2 status=none > /dev/null; "$REAL" cat; }`;

test("a hard link to a name that tar did not read is saved in the next try", async (context) => {
  const { data, save, restore, withTar } = context;
  makeLinked(data);
  await save(localExec, { busybox: withTar(`[ -e once ] && exec "$REAL" "$@"; echo > once; ${WITHOUT_FIRST}`) });
  const restored = await restore(localExec);
  for (const name of ["a", "b"]) assert.is(readFileSync(join(restored, name), "utf8"), "linked");
});

test("a hard link to nothing in every try fails the save", async (context) => {
  const { data, save, newest, withTar } = context;
  makeLinked(data);
  const error = await save(localExec, { busybox: withTar(WITHOUT_FIRST) }).catch((cause: unknown) => cause);
  assert.match(String(error), /the hard link "data\/[ab]" points at "data\/[ab]", which is not before it/);
  assert.is(await newest(), undefined);
});

test("a file that took the place of a hard link keeps its own content", async (context) => {
  const { data, save, restore, withTar } = context;
  makeLinked(data);
  const late = once("rm data/b; echo -n new > data/b");
  await save(localExec, { busybox: withTar(`"$REAL" "$@"; code=$?; ${late}; exit $code`) });
  const restored = await restore(localExec);
  assert.equal(
    ["a", "b"].map((name) => readFileSync(join(restored, name), "utf8")),
    ["linked", "new"],
  );
});

test.run();
