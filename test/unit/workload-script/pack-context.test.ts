import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { checkContext } from "../../../crds/archive/check-context.ts";
import { readTarHeader } from "../../../crds/archive/tar-header.ts";
import { findContext } from "../../../edge/cli/build/pack-context.ts";

const test = suite<{ folder: string }>("findContext");

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-pack-"));
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true }));

function put(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
}

async function archiveOf(folder: string, dockerfile = "Dockerfile"): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of findContext(folder, { dockerfile }).archive()) parts.push(part);
  return Buffer.concat(parts);
}

/** Paths of an archive, folders with a slash, as the check of the server lets them through. */
async function namesOf(archive: Buffer): Promise<string[]> {
  const parts: Buffer[] = [];
  for await (const part of checkContext([archive], { folder: "f", limitBytes: 1e6 })) parts.push(part);
  const clean = Buffer.concat(parts);
  const names: string[] = [];
  for (let at = 512; at < clean.length; ) {
    const header = readTarHeader(clean.subarray(at, at + 512));
    if (header === undefined) break;
    if (header.type !== "L") names.push(Buffer.from(header.name, "latin1").toString("utf8").slice(2));
    at += 512 + Math.ceil(header.size / 512) * 512;
  }
  return names;
}

test("packs everything in one order, links as they are", async ({ folder }) => {
  put(folder, { Dockerfile: "FROM scratch\n", "b/ä": "1", "b/a": "22", "a.txt": "" });
  mkdirSync(join(folder, "empty"));
  symlinkSync("b/a", join(folder, "link"));
  assert.equal(await namesOf(await archiveOf(folder)), ["Dockerfile", "a.txt", "b/", "b/a", "b/ä", "empty/", "link"]);
  const { files, bytes } = findContext(folder, { dockerfile: "Dockerfile" });
  assert.equal([files, bytes], [5, 16]);
});

test("packs the same files to the same archive, whenever they were written", async ({ folder }) => {
  put(folder, { Dockerfile: "FROM scratch\n", "a/b": "x", "a/c": "y" });
  const first = await archiveOf(folder);
  for (const name of ["a/b", "a", "Dockerfile"]) utimesSync(join(folder, name), 1, 1);
  assert.equal(await archiveOf(folder), first);
  chmodSync(join(folder, "a/b"), 0o755);
  const executable = await archiveOf(folder);
  assert.not.equal(executable, first, "a mode counts");
  const header = readTarHeader(executable.subarray(1024 + 512, 1024 + 1024));
  assert.equal([header?.name, header?.mode, header?.mtime, header?.uid], ["a/b", 0o755, 0, 0]);
});

test("leaves out what .dockerignore names, and keeps what it takes back", async ({ folder }) => {
  put(folder, {
    ...{ Dockerfile: "x", ".git/HEAD": "x", "text/a.md": "x", "text/in/README.md": "x", "src/a": "x", "src/b": "x" },
    ".dockerignore": ".git\ntext\n!**/README.md\nsrc/b\n",
  });
  assert.equal(await namesOf(await archiveOf(folder)), [
    ...[".dockerignore", "Dockerfile", "src/", "src/a", "text/", "text/in/", "text/in/README.md"],
  ]);
});

test("packs the build file and the list of what is left out, though that leaves them out", async ({ folder }) => {
  put(folder, { ".dockerignore": "*\n", "docker/app.Dockerfile": "x", "docker/other": "x", a: "x" });
  const dockerfile = "docker/app.Dockerfile";
  assert.equal(await namesOf(await archiveOf(folder, dockerfile)), [".dockerignore", "docker/", dockerfile]);
  put(folder, { "docker/app.Dockerfile.dockerignore": "a\n" });
  assert.equal(await namesOf(await archiveOf(folder, `./${dockerfile}`)), [
    ...[".dockerignore", "docker/", dockerfile, `${dockerfile}.dockerignore`, "docker/other"],
  ]);
});

test("says what it leaves out because no archive may hold it", async ({ folder }) => {
  put(folder, { Dockerfile: "x" });
  const server = createServer().listen(join(folder, "socket"));
  await new Promise((resolve) => server.once("listening", resolve));
  assert.equal(findContext(folder, { dockerfile: "Dockerfile" }).leftOut, ["socket"]);
  await new Promise((resolve) => server.close(resolve));
});

test("refuses a folder without the build file, and a file that changes meanwhile", async ({ folder }) => {
  assert.throws(() => findContext(folder, { dockerfile: "Dockerfile" }), /it holds no Dockerfile/);
  put(folder, { Dockerfile: "x", a: "short" });
  const { archive } = findContext(folder, { dockerfile: "Dockerfile" });
  put(folder, { a: "longer than it was" });
  let failed = "";
  try {
    for await (const _ of archive()) {
      // What fails is at its end.
    }
  } catch (error) {
    failed = (error as Error).message;
  }
  assert.match(failed, /a: it changed while it was packed/);
});

test.run();
