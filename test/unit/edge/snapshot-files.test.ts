// @runtimes bun node deno
import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import * as fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Callback, suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../../crds/client/clock.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { createDeferred } from "../../../crds/waits.ts";
import type { ApiTypes } from "../../../edge/api/openapi/schemas.ts";
import { rawTar } from "../archive/raw-tar.ts";
import { save } from "../snapshots/store-contract.ts";
import { isOverVolume, type ServedStore, serveStore } from "../snapshots/store-server.ts";
import { type SnapshotsFolder, snapshotsFolder } from "./snapshots-folder.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

interface Context {
  volume: SnapshotsFolder;
  served: ServedStore;
  edge: TestEdge;
  /** The folder that tar packs, which holds `data`. */
  tree: string;
  /** Bytes of the parts that were asked for. */
  parts: number[];
  /** What the reading of a part waits for. */
  gate: Promise<void> | undefined;
}

type SavedFile = ApiTypes["SavedFile"];
type SavedChange = ApiTypes["SavedChange"];

const test = suite<Context>("files of a snapshot");
/** Of what is done to the volume's own files. */
const testOfVolume: (name: string, run: Callback<Context>) => void = isOverVolume ? test : () => undefined;
const key: SnapshotKey = { tenantId: "a", workloadRef: "app" };
const PATH = "/api/v1/tenants/a/snapshots/app";
const MiB = 1024 * 1024;

test.before.each(async (context) => {
  context.volume = snapshotsFolder();
  context.served = await serveStore(context.volume.path);
  context.parts = [];
  context.gate = undefined;
  const { store } = context.served;
  const counted: typeof store = {
    ...store,
    async open(of, sha256, call) {
      if (call.range !== undefined) {
        context.parts.push(call.range.to - call.range.from);
        await context.gate;
      }
      return await store.open(of, sha256, call);
    },
  };
  context.edge = testEdge({ store: counted, clock: systemClock, snapshotLimitBytes: 64 * MiB });
  context.edge.cluster.addSnapshots();
  context.edge.cluster.addWorkload("app", { filesystem: { overlayDirs: ["/data"] } });
  context.tree = fs.mkdtempSync(join(tmpdir(), "tenancy-files-"));
});
test.after.each(async ({ served, volume, tree }) => {
  await served.close();
  volume.remove();
  fs.rmSync(tree, { recursive: true });
});

const nameOfBytes = Buffer.from("not utf-8 \xff", "latin1");

function makeTree(tree: string): void {
  const data = join(tree, "data");
  for (const folder of ["empty folder", "sub/deep"]) fs.mkdirSync(join(data, folder), { recursive: true });
  fs.writeFileSync(join(data, "a"), "the first");
  fs.writeFileSync(join(data, "empty"), "");
  fs.writeFileSync(join(data, "large"), Buffer.concat([randomBytes(5 * MiB), Buffer.alloc(5 * MiB, "text ")]));
  for (const name of ["50%41", "ü ?#&+", 'line\nof "two"', "back\\slash"]) fs.writeFileSync(join(data, name), name);
  fs.writeFileSync(Buffer.concat([Buffer.from(`${data}/`), nameOfBytes]), "of bytes");
  for (let index = 0; index < 40; index += 1)
    fs.writeFileSync(join(data, "sub", `file ${index}`), randomBytes(index * 97));
  fs.writeFileSync(join(data, "sub/deep/script"), "#!/bin/sh\n", { mode: 0o755 });
  fs.linkSync(join(data, "a"), join(data, "sub/another name of a"));
  fs.linkSync(join(data, "sub/deep/script"), join(data, "sub/script"));
  fs.symlinkSync("../a", join(data, "sub/link"));
  fs.utimesSync(join(data, "a"), 1_700_000_000, 1_700_000_000);
}

async function upload(context: Context, query = ""): Promise<string> {
  const words = ["--sort=name", "-cf", "-", "-C", context.tree, "data"];
  return await uploadTar(context, execFileSync("tar", words, { maxBuffer: 64 * MiB }), query);
}

async function uploadTar({ edge }: Context, body: Buffer, query = ""): Promise<string> {
  const request = new Request(`http://edge.test${PATH}/archive${query}`, { method: "PUT", body });
  const response = await edge.handler(request, {});
  const text = await response.text();
  assert.is(response.status, 201, text);
  return (JSON.parse(text) as ApiTypes["SnapshotVersion"]).version;
}

async function unpackFolder({ edge }: Context, folder: string, into: string): Promise<void> {
  const response = await edge.handler(new Request(`http://edge.test${PATH}/archive?folder=${folder}`), {});
  assert.is(response.status, 200);
  execFileSync("tar", ["-xzf", "-", "-C", into], { input: Buffer.from(await response.arrayBuffer()) });
}

/** All pages of a list. */
async function pages<T extends { path: string }>({ edge }: Context, path: string, limit = 7): Promise<T[]> {
  const items: T[] = [];
  for (let after: string | undefined = ""; after !== undefined; ) {
    const query = `${path.includes("?") ? "&" : "?"}limit=${limit}${after && `&after=${after}`}`;
    const { status, json, text, headers } = await edge.call(`GET ${PATH}/${path}${query}`);
    assert.is(status, 200, text);
    items.push(...(json as T[]));
    after = headers.get("x-tenancy-next") ?? undefined;
  }
  return items;
}

/** What the folder has, as the operating system says. */
function found(tree: string): Map<string, { type: string; mode: string; modifiedAt: string; content?: Buffer }> {
  const all = new Map();
  (function visit(path: Buffer): void {
    const stat = fs.lstatSync(path);
    const type = stat.isDirectory() ? "directory" : stat.isSymbolicLink() ? "symlink" : "file";
    const name = path.toString("latin1").slice(Buffer.from(tree).length + 1);
    const modifiedAt = new Date(Math.floor(stat.mtimeMs / 1000) * 1000).toISOString();
    const mode = (stat.mode & 0o7777).toString(8).padStart(4, "0");
    all.set(name, { type, mode, modifiedAt, ...(type === "file" && { content: fs.readFileSync(path) }) });
    if (type !== "directory") return;
    for (const child of fs.readdirSync(path, { encoding: "buffer" })) {
      visit(Buffer.concat([path, Buffer.from("/"), child]));
    }
  })(Buffer.from(join(tree, "data")));
  return all;
}

const bytesOf = ({ path, encodedPath }: SavedFile): string =>
  encodedPath === undefined ? Buffer.from(path).toString("latin1") : unescape(encodedPath);
const urlOf = ({ path, encodedPath }: SavedFile): string =>
  encodedPath ?? path.split("/").map(encodeURIComponent).join("/");
const digestOf = (content: Buffer): string => createHash("sha256").update(content).digest("hex");

test("every file is listed as it is, in pages, and downloaded alone", async (context) => {
  makeTree(context.tree);
  await upload(context);
  const listed = await pages<SavedFile>(context, "files?recursive=true");
  const there = found(context.tree);
  assert.equal(listed.map(bytesOf), [...there.keys()].sort());
  let links = 0;
  for (const file of listed) {
    const real = there.get(bytesOf(file));
    const isLink = file.type === "hardlink";
    if (isLink) links += 1;
    const { type = "", mode, modifiedAt, content } = real ?? {};
    assert.equal([isLink ? "file" : file.type, file.mode, file.modifiedAt], [type, mode, modifiedAt], file.path);
    assert.equal([file.sizeBytes, file.sha256], content ? [content.length, digestOf(content)] : [0, undefined]);
    const response = await context.edge.handler(new Request(`http://edge.test${PATH}/files/${urlOf(file)}`), {});
    if (content === undefined) {
      assert.is(response.status, 409);
      await response.body?.cancel();
      continue;
    }
    assert.is(response.headers.get("content-length"), String(content.length));
    assert.ok(Buffer.from(await response.arrayBuffer()).equals(content), file.path);
  }
  assert.is(links, 2);
  assert.ok(listed.some(({ path, target }) => path === "data/sub/link" && target === "../a"));
});

test("a folder is listed by its path, also one without an entry of its own", async (context) => {
  makeTree(context.tree);
  await upload(context);
  const names = async (query: string) => (await pages<SavedFile>(context, `files${query}`)).map(({ path }) => path);
  assert.equal(await names(""), ["data"]);
  assert.equal(await names("?folder=data/sub/deep"), ["data/sub/deep/script"]);
  assert.equal(await names("?folder=data/empty%20folder"), []);
  const ask = async (path: string) => {
    const { status, error } = await context.edge.call(`GET ${PATH}/${path}`);
    return `${status} ${error}`;
  };
  assert.is(await ask("files?folder=data/none"), '404 there is no folder "data/none" in this version');
  assert.is(await ask("files?folder=data/a"), '409 "data/a" is no folder: it is a file');
  assert.is(await ask("archive?folder=data/none"), '404 there is no folder "data/none" in this version');
  assert.is(await ask("files/data/none"), '404 there is no file "data/none" in this version');
  assert.is(await ask("files/data/sub"), '409 "data/sub" is no file: it is a folder');
  assert.is(await ask("files/data/sub/link"), '409 "data/sub/link" is no file: it is a link to "../a"');
  for (const path of ["files?folder=/data", "files?folder=data/", "files/data//a", "files/%zz", "files?folder=a%25"]) {
    assert.match(
      await ask(path),
      /^400 .*a path has no empty part, no more than 12288 characters, and no "%" without/,
      path,
    );
  }
});

test("a small file, or a folder of them, is read without the rest", async (context) => {
  makeTree(context.tree);
  await upload(context);
  const { headers, text } = await context.edge.call(`GET ${PATH}/files/data/a`);
  assert.is(text, "the first");
  assert.is(headers.get("content-disposition"), 'attachment; filename="a"');
  const odd = await context.edge.call(`HEAD ${PATH}/files/data/${encodeURIComponent("ü ?#&+")}`);
  const named = odd.headers.get("content-disposition");
  assert.is(named, `attachment; filename="__ ____"; filename*=UTF-8''%C3%BC%20%3F%23%26%2B`);
  const etag = headers.get("etag") ?? "";
  const again = await context.edge.call(`GET ${PATH}/files/data/a`, { headers: { "if-none-match": etag } });
  assert.equal([again.status, etag], [304, `"${digestOf(Buffer.from("the first"))}"`]);
  const into = join(context.tree, "unpacked");
  fs.mkdirSync(into);
  await unpackFolder(context, "data/sub", into);
  execFileSync("diff", ["-r", "--no-dereference", join(context.tree, "data/sub"), join(into, "data/sub")]);
  const inode = (path: string) => fs.lstatSync(join(into, path)).ino;
  assert.is(inode("data/sub/script"), inode("data/sub/deep/script"));
  assert.equal(fs.readdirSync(join(into, "data")), ["sub"]);
  const sum = context.parts.reduce((all, bytes) => all + bytes, 0);
  assert.ok(sum < 400_000, `${sum} bytes were read, in parts of ${context.parts}`);
});

test("a folder without an entry of its own, of which all is elsewhere, comes with few reads", async (context) => {
  const names = Array.from({ length: 200 }, (_, index) => `file ${index}`);
  const files = names.map((name) => ({ name: `data/files/${name}`, content: Buffer.from(name) }));
  const links = names
    .toReversed()
    .map((name) => ({ name: `data/links/${name}`, type: "1", target: `data/files/${name}` }));
  await uploadTar(context, rawTar([...files, ...links, { name: "data/one/file", content: Buffer.from("alone") }]));
  for (const [folder, expected] of [
    ["data/links", names],
    ["data/one", ["file"]],
  ] as const) {
    context.parts = [];
    const into = fs.mkdtempSync(join(context.tree, "unpacked-"));
    await unpackFolder(context, folder, into);
    assert.equal(fs.readdirSync(join(into, folder)).sort(), [...expected].sort());
    assert.ok(context.parts.length <= 3, `${context.parts.length} reads`);
  }
});

test("two versions are compared, and what differs only in its time is none", async (context) => {
  makeTree(context.tree);
  const first = await upload(context);
  const data = join(context.tree, "data");
  for (const path of ["sub/file 7", "sub/link", "sub/script"]) fs.rmSync(join(data, path));
  fs.writeFileSync(join(data, "a"), "the other");
  fs.writeFileSync(join(data, "sub/new"), "new");
  fs.writeFileSync(join(data, "sub/script"), "#!/bin/sh\n", { mode: 0o755 });
  fs.symlinkSync("../empty", join(data, "sub/link"));
  fs.chmodSync(join(data, "empty"), 0o600);
  fs.utimesSync(join(data, "sub/file 8"), 1, 1);
  const page = await context.edge.call(`GET ${PATH}/files?recursive=true&limit=5`);
  const second = await upload(context, `?replaces=${first}`);
  const ofSecond = await pages<SavedFile>(context, "files?recursive=true");
  const after = page.headers.get("x-tenancy-next");
  const next = (await context.edge.call(`GET ${PATH}/files?recursive=true&after=${after}`)).json as SavedFile[];
  const ofFirst = await pages<SavedFile>(context, `files?recursive=true&version=${first}`);
  assert.equal([...(page.json as SavedFile[]), ...next], ofFirst, "later pages are of the version of the first page");
  assert.not.equal(ofSecond, ofFirst);
  const shown = (all: SavedChange[]) =>
    all.map(({ path, change, before, after }) => {
      return [path, change, ...[before, after].map((one) => one && (one.target ?? `${one.mode} ${one.sizeBytes}`))];
    });
  const expected = [
    ["data/a", "changed", "0644 9", "0644 9"],
    ["data/empty", "changed", "0644 0", "0600 0"],
    ["data/sub/another name of a", "changed", "data/a", "data/a"],
    ["data/sub/file 7", "removed", "0644 679", undefined],
    ["data/sub/link", "changed", "../a", "../empty"],
    ["data/sub/new", "added", undefined, "0644 3"],
  ];
  assert.equal(shown(await pages(context, "diff", 2)), expected);
  assert.equal(shown(await pages(context, `diff?from=${first}&to=${second}`)), expected);
  const back = await pages<SavedChange>(context, `diff?from=${second}&to=${first}`);
  assert.equal(
    back.map(({ change }) => change),
    ["changed", "changed", "changed", "added", "changed", "removed"],
  );
  assert.equal(await pages(context, `diff?from=${first}&to=${first}`), []);
  const none = await context.edge.call(`GET ${PATH}/diff?to=${first}`);
  assert.equal([none.status, none.error], [404, `there is no version before ${first}`]);
});

test("an archive without a list says so, and is downloaded whole", async ({ edge, served }) => {
  await save(served.store, "of an earlier version", key);
  for (const path of ["files", "files/data/a", "archive?folder=data"]) {
    const { status, error } = await edge.call(`GET ${PATH}/${path}`);
    assert.is(status, 409);
    assert.match(error ?? "", /^version [0-9a-f]{16} has no list of its files: it was saved before such lists were/);
  }
  assert.is((await edge.call(`GET ${PATH}/archive`)).text, "of an earlier version");
});

test("many lists at once are refused with a time to try again, and what was begun is answered", async (context) => {
  fs.mkdirSync(join(context.tree, "data"));
  await upload(context);
  const gate = createDeferred<void>();
  context.gate = gate.promise;
  let refusals = 0;
  const answers = Array.from({ length: 8 }, async () => {
    const { status, headers } = await context.edge.call(`GET ${PATH}/files`);
    if (status !== 200) refusals += 1;
    if (refusals === 4) gate.resolve();
    return `${status} ${headers.get("retry-after")}`;
  });
  assert.equal((await Promise.all(answers)).sort(), [...Array(4).fill("200 null"), ...Array(4).fill("503 1")]);
  assert.is((await context.edge.call(`GET ${PATH}/files`)).status, 200);
});

test("folders that are downloaded slowly are few, and make room when their clients go away", async (context) => {
  fs.mkdirSync(join(context.tree, "data/sub"), { recursive: true });
  await upload(context);
  const ask = (folder: string, init: RequestInit = {}) =>
    context.edge.handler(new Request(`http://edge.test${PATH}/archive?folder=${folder}`, init), {});
  for (let round = 0; round < 2; round += 1) {
    for (let heads = 0; heads < 10; heads += 1) assert.is((await ask("data", { method: "HEAD" })).status, 200);
    const open: Response[] = [];
    while (open.length < 8) open.push(await ask("data"));
    assert.ok(open.every(({ status }) => status === 200));
    const refused = await ask("data");
    assert.equal([refused.status, refused.headers.get("retry-after")], [503, "5"]);
    const etag = open[0]?.headers.get("etag") ?? "";
    await Promise.all(open.map(async ({ body }) => await body?.cancel()));
    const headers = { "if-none-match": etag };
    assert.equal([(await ask("data", { headers })).status, (await ask("data/none", { headers })).status], [304, 404]);
    await (await ask("data")).arrayBuffer();
  }
});

testOfVolume("a file that is damaged in the store has no last byte", async (context) => {
  makeTree(context.tree);
  await upload(context);
  const archive = join(context.volume.path, "a", "app.tar.gz");
  const bytes = fs.readFileSync(archive);
  bytes[3 * MiB] = (bytes[3 * MiB] ?? 0) ^ 1;
  fs.writeFileSync(archive, bytes);
  for (const path of ["files/data/large", "archive?folder=data"]) {
    const { body, headers } = await context.edge.handler(new Request(`http://edge.test${PATH}/${path}`), {});
    let read = 0;
    const error = await (async () => {
      for await (const piece of body as ReadableStream<Uint8Array>) read += piece.length;
    })().catch((failure: unknown) => failure);
    assert.instance(error, Error);
    assert.ok(read < Number(headers.get("content-length") ?? Number.POSITIVE_INFINITY), path);
  }
  bytes[bytes.length - 100] = (bytes[bytes.length - 100] ?? 0) ^ 1;
  fs.writeFileSync(archive, bytes);
  const list = await context.edge.call(`GET ${PATH}/files`);
  assert.is(list.status, 500);
  assert.match(list.error ?? "", /^the list of the files of version [0-9a-f]{16} is damaged: try its archive$/);
});

test.run();
