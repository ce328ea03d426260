import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { contextScripts, NO_CONTEXT, UPLOAD_END } from "../../../crds/builds/context-store.ts";
import { storeCommand } from "../../../crds/snapshots/store-folder.ts";
import { createArchiveSource } from "../../../operator/snapshots/archive-source.ts";
import { createArchiveStore } from "../../../operator/snapshots/archive-store.ts";
import { eventually } from "../../eventually.ts";
import { localExec } from "../snapshots/local-exec.ts";
import { staticBusybox } from "../snapshots/static-busybox.ts";

type Name = keyof typeof contextScripts;
const call = { signal: new AbortController().signal, timeoutMs: 60_000 };
const test = suite<{ folder: string; root: string }>("contextScripts");

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-contexts-"));
  context.root = join(context.folder, "volume");
  mkdirSync(context.root);
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, maxRetries: 20 }));

function commandOf(name: Name, root: string, words: readonly string[], busybox = staticBusybox) {
  const folder = { namespace: "n", pod: "p", container: "c", root, busybox };
  return storeCommand(folder, { script: contextScripts[name], words, limitMs: 60_000 });
}

function run(name: Name, root: string, words: readonly string[], options: { input?: Buffer; busybox?: string } = {}) {
  const { input = Buffer.alloc(0), busybox } = options;
  const [program = "", ...rest] = commandOf(name, root, words, busybox).command;
  const { status, stdout, stderr } = spawnSync(program, rest, { input, env: {} });
  return { code: status, out: stdout.toString(), err: stderr.toString() };
}

function begin(root: string, words: readonly string[]): ChildProcessWithoutNullStreams {
  const [program = "", ...rest] = commandOf("receive", root, words).command;
  const child = spawn(program, rest, { stdio: "pipe", env: {} });
  child.stdin.on("error", () => undefined);
  return child;
}

function digestOf(content: Buffer | string): string {
  return createHash("sha256").update(content).digest("hex");
}

function ended(content: Buffer | string): Buffer {
  return Buffer.concat([Buffer.from(content), Buffer.from(UPLOAD_END)]);
}

/** Uploads as the edge does. */
function keep(root: string, workload: string, content: string, before = ""): string {
  const id = randomBytes(4).toString("hex");
  const received = run("receive", root, [workload, id, String(content.length), "0"], { input: ended(content) });
  assert.is(received.out, `received ${digestOf(content)} ${content.length}\n`);
  assert.equal(run("keep", root, [workload, id, digestOf(content), before]), { code: 0, out: "kept\n", err: "" });
  return digestOf(content);
}

async function read(root: string, workload: string, sha256: string): Promise<string | undefined> {
  const parts: Buffer[] = [];
  const archive = new Writable({
    write(chunk: Buffer, _encoding, done) {
      parts.push(chunk);
      done();
    },
  });
  const { stdin, stdout, end } = createArchiveSource(archive);
  const { exitCode, stderr } = await localExec({
    ...commandOf("read", root, [workload, sha256]),
    ...call,
    stdin,
    stdout,
  });
  if (exitCode === NO_CONTEXT) return undefined;
  assert.is(exitCode, 0, stderr);
  assert.equal(await end(), []);
  return Buffer.concat(parts).toString();
}

function age(path: string, minutes: number): void {
  const time = Date.now() / 1000 - minutes * 60;
  utimesSync(path, time, time);
}

test("keeps a context by its SHA-256, which the reader of archives reads", async ({ root }) => {
  const sha256 = keep(root, "app", "a context");
  assert.is(await read(root, "app", sha256), "a context");
  assert.is(keep(root, "app", "a context"), sha256);
  assert.equal(readdirSync(join(root, ".contexts/app")), [sha256]);
  assert.is(await read(root, "app", "0".repeat(64)), undefined);
  assert.is(await read(root, "other", sha256), undefined);
});

test("keeps a large context whole", async ({ root }) => {
  for (const bytes of [0, 16 * 1024 * 1024, 33 * 1024 * 1024 + 5]) {
    const input = randomBytes(bytes);
    const { out } = run("receive", root, ["app", "id", String(bytes), "0"], { input: ended(input) });
    assert.is(out, `received ${digestOf(input)} ${bytes}\n`);
    assert.is(run("keep", root, ["app", "id", digestOf(input)]).code, 0);
    assert.is(digestOf(readFileSync(join(root, ".contexts/app", digestOf(input)))), digestOf(input));
  }
});

test("finds nothing of an upload that did not come to its end", async ({ root }) => {
  const content = "half of a context";
  const child = begin(root, ["app", "id", "1000", "0"]);
  child.stdin.write(content);
  await eventually(() => existsSync(join(root, ".contexts/app/.id.partial")));
  assert.is(await read(root, "app", digestOf(content)), undefined);
  child.stdin.end();
  await once(child, "close");
  assert.equal(readdirSync(root), []);
  for (const input of ["", "en", "a context"].map((text) => Buffer.from(text))) {
    assert.is(run("receive", root, ["app", "id", "1000", "0"], { input }).out, "failed: it was cut off\n");
    assert.equal(readdirSync(root), []);
  }
  const whole = run("receive", root, ["app", "id", "1000", "0"], { input: ended(content) });
  assert.match(whole.out, /^received /);
  assert.is(await read(root, "app", digestOf(content)), undefined);
  assert.equal(run("drop", root, ["app", "id"]), { code: 0, out: "", err: "" });
  assert.equal(readdirSync(root), []);
  assert.is(run("keep", root, ["app", "id", digestOf(content)]).code, NO_CONTEXT);
  assert.is(run("drop", root, ["app", "id"]).code, 0, "again");
});

test("leaves nothing behind where it is ended by a signal", async ({ root }) => {
  const child = begin(root, ["app", "id", "1000", "0"]);
  child.stdin.write("half");
  await eventually(() => existsSync(join(root, ".contexts/app/.id.partial")));
  child.kill("SIGTERM");
  child.stdin.end();
  await once(child, "close");
  await eventually(() => readdirSync(root).length === 0);
});

test("refuses what is too large, and takes the rest of the input all the same", ({ root }) => {
  const input = randomBytes(40 * 1024 * 1024);
  const refused = run("receive", root, ["app", "id", String(20 * 1024 * 1024), "0"], { input });
  assert.equal(refused, { code: 0, out: "large\n", err: "" });
  assert.equal(readdirSync(root), []);
});

test("leaves a share of the volume free", ({ root, folder }) => {
  const busybox = join(folder, "busybox");
  const space = (free: number, total: number) => {
    writeFileSync(
      busybox,
      `#!/bin/sh\nif [ "$1 $2" = "stat -f" ]; then echo "${free} ${total} 1048576"; else exec ${staticBusybox} "$@"; fi\n`,
    );
    chmodSync(busybox, 0o755);
  };
  const receive = (asked: number) =>
    run("receive", root, ["app", "id", "1000", String(asked)], { input: ended("a context"), busybox }).out;
  space(115, 1000);
  assert.is(receive(0), "full\n");
  assert.equal(readdirSync(root), []);
  space(117, 1000);
  assert.match(receive(0), /^received /);
  // The volume is a folder of a larger disk.
  space(100, 100_000);
  assert.is(receive(0), "full\n");
  assert.match(receive(500 * 1024 * 1024), /^received /);
});

test("says why where the volume cannot be written", ({ root }) => {
  writeFileSync(join(root, ".contexts"), "");
  const { out } = run("receive", root, ["app", "id", "1000", "0"], { input: Buffer.from("a context") });
  assert.match(out, /^failed: .*cannot be written\n$/);
  const gone = run("receive", join(root, "nowhere"), ["app", "id", "1000", "0"]);
  assert.is(gone.code, 1);
  assert.match(gone.err, /is not there/);
});

test("deletes the older contexts of one workload alone", ({ root }) => {
  const [first, second, third] = ["1", "2", "3"].map((content) => keep(root, "app", content)) as [
    string,
    string,
    string,
  ];
  const other = keep(root, "other", "1");
  const folder = join(root, ".contexts/app");
  for (const name of [".lost.partial", ".live.partial"]) writeFileSync(join(folder, name), "half");
  for (const path of [join(folder, first), join(folder, third), join(root, ".contexts/other", other)]) age(path, 5);
  age(join(folder, ".lost.partial"), 120);
  age(join(folder, ".live.partial"), 5);
  const fourth = keep(root, "app", "4", third);
  assert.equal(readdirSync(folder).sort(), [".live.partial", second, third, fourth].sort(), "the second is new");
  for (const name of [second, third, fourth]) age(join(folder, name), 5);
  assert.is(keep(root, "app", "4"), fourth);
  assert.equal(readdirSync(folder).sort(), [".live.partial", fourth].sort());
  assert.equal(readdirSync(join(root, ".contexts/other")), [other]);
});

test("erases the contexts of one workload alone", async ({ root }) => {
  const sha256 = keep(root, "app", "a context");
  keep(root, "app.other", "a context");
  assert.equal(run("erase", root, ["app"]), { code: 0, out: "erased\n", err: "" });
  assert.equal(readdirSync(join(root, ".contexts")), ["app.other"]);
  assert.is(await read(root, "app", sha256), undefined);
  assert.is(run("erase", root, ["app"]).out, "erased\n");
  assert.is(run("erase", root, ["app.other"]).out, "erased\n");
  assert.equal(readdirSync(root), []);
});

test("goes on with the next upload while another one ends in the same folder", async ({ root }) => {
  const uploads = Array.from({ length: 12 }, (_, index) => ({
    child: begin(root, ["app", `${index}`, "99", "0"]),
    index,
  }));
  const answers = uploads.map(async ({ child, index }) => {
    child.stdin.end(ended(`context ${index}`));
    const out: Buffer[] = [];
    child.stdout.on("data", (chunk: Buffer) => out.push(chunk));
    await once(child, "close");
    assert.is(Buffer.concat(out).toString(), `received ${digestOf(`context ${index}`)} ${`context ${index}`.length}\n`);
    assert.is(run(index % 2 === 0 ? "drop" : "keep", root, ["app", `${index}`, digestOf(`context ${index}`)]).code, 0);
  });
  await Promise.all(answers);
  assert.is(readdirSync(join(root, ".contexts/app")).length, 6);
});

// Every one of them is a legal name of a workload.
const names = ["app", "a.tar.gz", "a.tar.gz.0123456789abcdef.json", "a.partial", "a.json", "versions"];

test("keeps contexts apart from archives: neither is listed, tidied or deleted with the other", async ({ root }) => {
  const folder = { namespace: "n", pod: "p", container: "c", root, busybox: staticBusybox };
  const store = createArchiveStore({ exec: localExec, folder });
  const describe = () => ({
    ...{ uid: 1, gid: 1, entries: 1, contentBytes: 1, overlayDirs: ["/data"] },
    createdAt: "2026-11-21T12:00:00.000Z",
  });
  const keys = names.map((workloadRef) => ({ tenantId: "contexts", workloadRef }));
  for (const key of keys) await store.write(key, [Buffer.from("x")] as never, { ...call, describe });
  const kept = names.map((workload) => ({ workload, sha256: keep(root, workload, `of ${workload}`) }));
  for (const { workload } of kept) writeFileSync(join(root, ".contexts", workload, ".1.partial"), "");
  for (const { workload, sha256 } of kept) {
    for (const path of [".1.partial", sha256, "."]) age(join(root, ".contexts", workload, path), 3000);
  }
  const listed = async () => (await store.list(call)).map(({ workloadRef }) => workloadRef).sort();

  assert.equal(await listed(), [...names].sort());
  await store.tidy(call);
  for (const { workload, sha256 } of kept) {
    assert.is(await read(root, workload, sha256), `of ${workload}`);
    assert.equal(readdirSync(join(root, ".contexts", workload)), [sha256], "an upload left behind is tidied");
  }
  for (const key of keys.slice(0, 3)) assert.is(await store.delete(key, call), true);
  for (const { workload, sha256 } of kept) assert.is(await read(root, workload, sha256), `of ${workload}`);
  for (const workload of names) assert.is(run("erase", root, [workload]).code, 0);
  assert.equal(await listed(), names.slice(3).sort());
  store.close();
});

test.run();
