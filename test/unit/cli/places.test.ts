// @runtimes node bun
// Commands that read and write files: here, in an instance, and with the logins.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { BLOCK, tarPadding, writeTarHeader } from "../../../crds/archive/tar-header.ts";
import { copyPlaceOf } from "../../../edge/cli/files/copy-place.ts";
import { staysInside, unpackFolder } from "../../../edge/cli/files/local-archive.ts";
import { errorOf } from "../../error-of.ts";
import { clientEdge, INSTANCE, KEY } from "../rest-client/client-edge.ts";
import { type CliOptions, type CliRun, runCli } from "./run-cli.ts";

const test = suite("files and logins of tenancy");
let edge: Awaited<ReturnType<typeof clientEdge>>;
/** Stands for a folder of the instance. */
let inside: string;
let here: string;

test.before(async () => {
  edge = await clientEdge();
  inside = join(edge.folder, "inside");
  here = join(edge.folder, "here");
  for (const folder of [inside, here]) mkdirSync(folder);
});
test.after(() => edge?.stop());

const tenancy = (words: string[], options: CliOptions = {}): Promise<CliRun> =>
  runCli(words, { ...options, env: { TENANCY_URL: edge.url, TENANCY_KEY: KEY, HOME: here, ...options.env } });
async function done(words: string[], options: CliOptions = {}): Promise<string> {
  const { exitCode, stdout, stderr } = await tenancy(words, options);
  assert.is(exitCode, 0, `${words.join(" ")}: ${stderr}`);
  return String(stdout);
}

test("cp: a folder goes both ways, with its links and permissions", async () => {
  const project = join(here, "project");
  mkdirSync(join(project, "sub"), { recursive: true });
  writeFileSync(join(project, "run"), "#!/bin/sh\n", { mode: 0o755 });
  writeFileSync(join(project, "sub/b"), Buffer.alloc(300_000, 7));
  symlinkSync("sub/b", join(project, "link"));
  await done(["cp", project, `ann/app:${inside}/new`]);
  assert.equal(readFileSync(join(inside, "new/sub/b")), Buffer.alloc(300_000, 7));
  await done(["cp", project, `${INSTANCE}:${inside}/new`]);
  assert.ok(existsSync(join(inside, "new/project/run")), "a folder that is there gets it inside");
  await done(["cp", `ann/app:${inside}/new/project`, join(here, "back")]);
  assert.equal(readFileSync(join(here, "back/sub/b")), Buffer.alloc(300_000, 7));
  assert.is(readlinkSync(join(here, "back/link")), "sub/b");
  assert.is(statSync(join(here, "back/run")).mode & 0o777, 0o755);
});

test("cp: a file goes both ways, and stays as it was if the copy fails", async () => {
  writeFileSync(join(here, "a"), "one");
  await done(["cp", join(here, "a"), `ann/app:${inside}/`]);
  assert.is(readFileSync(join(inside, "a"), "utf8"), "one");
  writeFileSync(join(inside, "a"), "two");
  await done(["cp", `ann/app:${inside}/a`, join(here, "a")]);
  assert.is(readFileSync(join(here, "a"), "utf8"), "two");
  assert.is((await tenancy(["cp", `ann/app:${inside}/none`, join(here, "a")])).exitCode, 3);
  assert.is(readFileSync(join(here, "a"), "utf8"), "two");
  assert.is((await tenancy(["cp", join(here, "none"), `ann/app:${inside}/x`])).exitCode, 3);
  for (const words of [
    ["a", "b"],
    ["x/y:/a", "x/y:/b"],
    ["x/y:", "b"],
  ])
    assert.is((await tenancy(["cp", ...words])).exitCode, 2);
});

test("copyPlaceOf: only a path with a colon before its first slash or dot is in an instance", () => {
  assert.equal(copyPlaceOf("./a:b"), { kind: "local", path: "./a:b" });
  assert.equal(copyPlaceOf("/a:b"), { kind: "local", path: "/a:b" });
  assert.equal(copyPlaceOf("a/b:c:d"), { kind: "instance", where: { tenant: "a", workload: "b" }, path: "c:d" });
});

interface Entry {
  readonly path: string;
  readonly type: "file" | "directory" | "symlink" | "hardlink";
  readonly target?: string;
  readonly mode?: number;
}

async function* archiveOf(entries: readonly Entry[]): AsyncGenerator<Buffer> {
  for (const { path, type, target = "", mode = 0o644 } of entries) {
    const size = type === "file" ? 4 : 0;
    yield writeTarHeader({ type, path, target, mode, uid: 0, gid: 0, mtime: 0, size } as Parameters<
      typeof writeTarHeader
    >[0]);
    if (size > 0) yield Buffer.concat([Buffer.from("evil"), tarPadding(size)]);
  }
  yield Buffer.alloc(2 * BLOCK);
}

test("unpackFolder: nothing of a hostile archive is written outside, and no link leads there", async () => {
  const outside = join(here, "outside");
  mkdirSync(outside);
  writeFileSync(join(outside, "kept"), "mine");
  const target = join(here, "unpacked");
  const leftOut = await unpackFolder(
    archiveOf([
      { path: "good", type: "file", mode: 0o6755 },
      { path: "absolute", type: "symlink", target: outside },
      { path: "up", type: "symlink", target: "../outside" },
      { path: "d", type: "directory", mode: 0o755 },
      { path: "d/root", type: "symlink", target: ".." },
      { path: "through", type: "symlink", target: "d/root/../outside" },
      { path: "hard", type: "hardlink", target: "good" },
    ]),
    target,
  );
  assert.equal(leftOut.sort(), ["absolute", "hard", "through", "up"]);
  assert.is(readFileSync(join(target, "good"), "utf8"), "evil");
  assert.is(statSync(join(target, "good")).mode & 0o7000, 0);
  assert.is(readlinkSync(join(target, "d/root")), "..");
  for (const entries of [
    [{ path: "../outside/kept", type: "file" }],
    [{ path: `${outside}/kept`, type: "file" }],
    [
      { path: "l", type: "symlink", target: "d" },
      { path: "l/../../outside/kept", type: "file" },
    ],
  ] as Entry[][])
    await errorOf(unpackFolder(archiveOf(entries), target));
  assert.is(readFileSync(join(outside, "kept"), "utf8"), "mine");
  await errorOf(unpackFolder(Readable.from([Buffer.from("this is no archive".repeat(100))]), target));
});

test("staysInside: takes .. only at the start of a target", () => {
  for (const [path, target] of [
    ["a", "b"],
    ["a/b", "../c"],
    ["a/b/c", "../../d/e"],
    ["a", "./b/."],
  ] as const)
    assert.ok(staysInside(path, target), `${path} -> ${target}`);
  for (const [path, target] of [
    ["a", ".."],
    ["a", "/b"],
    ["a/b", "../../c"],
    ["a", "b/../../c"],
    ["a/b", "c/.."],
  ] as const)
    assert.not.ok(staysInside(path, target), `${path} -> ${target}`);
});

test("files: a file is written, edited, moved and removed", async () => {
  const path = join(inside, "notes");
  await done(["files", "put", "ann/app", path], { stdin: "first" });
  assert.is(await done(["files", "cat", "ann/app", path]), "first");
  assert.is((await tenancy(["files", "put", "ann/app", path, "--new"], { stdin: "x" })).exitCode, 5);
  const env = { EDITOR: `${process.execPath} -e "require('fs').writeFileSync(process.argv[1], 'second')"` };
  await done(["files", "edit", INSTANCE, path], { env });
  assert.is(readFileSync(path, "utf8"), "second");
  await done(["files", "mv", "ann/app", path, join(inside, "moved")]);
  assert.match(await done(["files", "ls", "ann/app", inside, "-o", "name"]), `${inside}/moved\n`);
  await done(["files", "rm", "ann/app", join(inside, "moved")]);
  assert.is((await tenancy(["files", "cat", "ann/app", join(inside, "moved")])).exitCode, 3);
});

test("files edit: writes nothing over a change, and keeps the text", async () => {
  const path = join(inside, "both");
  writeFileSync(path, "before");
  const env = { EDITOR: `echo theirs > ${path}; echo mine > "$1"; true` };
  const { exitCode, stderr } = await tenancy(["files", "edit", INSTANCE, path], { env });
  assert.is(exitCode, 5, stderr);
  assert.is(readFileSync(path, "utf8"), "theirs\n");
  const local = /your text is in (\S+)/.exec(stderr)?.[1] ?? "";
  assert.is(readFileSync(local, "utf8"), "mine\n");
  rmSync(dirname(local), { recursive: true });
});

test("login: stores a key that works, for its address alone, and readable only by its owner", async () => {
  const env = { TENANCY_KEY: undefined, TENANCY_URL: undefined, XDG_CONFIG_HOME: join(here, "config") };
  const file = join(here, "config/tenancy/config.json");
  assert.is((await tenancy(["login", "--url", edge.url], { env, stdin: "wrong\n" })).exitCode, 4);
  assert.not.ok(existsSync(file));
  await done(["login", "--url", edge.url], { env, stdin: `${KEY}\n` });
  assert.is(statSync(file).mode & 0o777, 0o600);
  assert.is(await done(["ls", "-o", "name"], { env }), "ann/app\n");
  const other = await tenancy(["ls", "--url", edge.url.replace("127.0.0.1", "localhost")], { env });
  assert.is(other.exitCode, 4, other.stderr);
  chmodSync(file, 0o640);
  const open = await tenancy(["ls"], { env });
  assert.is(open.exitCode, 1);
  assert.match(open.stderr, "other users can read");
  chmodSync(file, 0o600);
  await done(["logout"], { env });
  assert.not.match(readFileSync(file, "utf8"), KEY);
});

test("apply: creates, then replaces, and refuses what it cannot read before it writes", async () => {
  const text = (cpus: number, more = "") => `
apiVersion: tenancy.dev/v1alpha1
kind: TenancyWorkload
metadata: { name: web }
spec: { image: { ref: "web:1" }, resources: { vcpus: ${cpus} } }
---
${more}`;
  const pool = `{"apiVersion":"tenancy.dev/v1alpha1","kind":"TenancyPool","metadata":{"name":"web"},"spec":{"workloadRef":"web","size":1}}`;
  const bad = await tenancy(["apply", "-f", "-"], {
    stdin: text(1, "apiVersion: v1\nkind: Secret\nmetadata: { name: x }"),
  });
  assert.is(bad.exitCode, 2, bad.stderr);
  assert.match(bad.stderr, "document 2");
  assert.is((await tenancy(["workloads", "get", "web"])).exitCode, 3);
  assert.match(
    await done(["apply", "-f", "-"], { stdin: text(1, pool) }),
    /workload\/web +created\npool\/web +created\n/,
  );
  assert.match(await done(["apply", "-f", "-"], { stdin: text(2) }), /workload\/web +replaced/);
  assert.is(JSON.parse(await done(["workloads", "get", "web", "-o", "json"])).spec.resources.vcpus, 2);
  assert.is(await done(["delete", "-f", "-"], { stdin: pool }), "pool/web deleted\n");
});

test.run();
