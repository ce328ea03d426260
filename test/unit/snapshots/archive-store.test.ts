// @limit 120
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type ArchiveStore, createArchiveStore } from "../../../operator/snapshots/archive-store.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { localExec } from "./local-exec.ts";
import { staticBusybox } from "./static-busybox.ts";

const key = { tenantId: "a.b", workloadRef: "c.tar.gz" };
const call = { signal: new AbortController().signal, timeoutMs: 60_000 };
const description = {
  ...{ uid: 1000, gid: 2000, entries: 1, contentBytes: 10, overlayDirs: ["/data"] },
  createdAt: "2026-11-21T12:00:00.000Z",
};

const test = suite<{ folder: string; root: string; store: ArchiveStore }>("createArchiveStore");

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-store-"));
  context.root = join(context.folder, "volume");
  mkdirSync(context.root);
  context.store = storeIn(context.root);
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, maxRetries: 20 }));

function storeIn(root: string, busybox = staticBusybox): ArchiveStore {
  return createArchiveStore({ exec: localExec, folder: { namespace: "n", pod: "p", container: "c", root, busybox } });
}

async function* chunks(content: string): AsyncGenerator<Buffer> {
  yield Buffer.from(content.slice(0, 3));
  yield Buffer.from(content.slice(3));
}

function write(store: ArchiveStore, content: string, to = key) {
  return store.write(to, chunks(content), { ...call, describe: () => description });
}

async function read(store: ArchiveStore, from = key): Promise<string | undefined> {
  const parts: Buffer[] = [];
  const archive = new Writable({
    write(chunk: Buffer, _encoding, callback) {
      parts.push(chunk);
      callback();
    },
  });
  const recorded = await store.read(from, archive, call);
  if (recorded === undefined) return undefined;
  const content = Buffer.concat(parts).toString("utf8");
  const digest = createHash("sha256").update(content).digest("hex");
  assert.ok(recorded.some(({ sha256 }) => sha256 === digest));
  return content;
}

/** The archive, when it and what is beside it fit together. */
async function readWhole(store: ArchiveStore): Promise<string | undefined> {
  const content = await read(store);
  const metadata = await store.stat(key, call);
  if (content === undefined) {
    assert.is(metadata, undefined);
    return undefined;
  }
  assert.is(metadata?.sha256, createHash("sha256").update(content).digest("hex"));
  assert.is(metadata?.sizeBytes, content.length);
  return content;
}

test("keeps an archive and what is beside it, and replaces both", async ({ store, root }) => {
  assert.is(await readWhole(store), undefined);
  assert.equal(await store.list(call), []);
  const first = await write(store, "the first");
  assert.is(await readWhole(store), "the first");
  assert.equal(await store.stat(key, call), first);
  assert.equal(first.overlayDirs, ["/data"]);
  assert.equal([first.uid, first.gid], [1000, 2000]);
  const second = await write(store, "the second one");
  assert.is(await readWhole(store), "the second one");
  assert.equal(await store.list(call), [second]);
  assert.ok(existsSync(join(root, "a.b/c.tar.gz.tar.gz")), "spec.md, section 2.5");
});

test("tells archives of the same size apart", async ({ store }) => {
  await write(store, "same size 1");
  await write(store, "same size 2");
  await write(store, "same size 3");
  assert.is(await readWhole(store), "same size 3");
});

test("keeps tenants and workloads apart, and takes no other names for them", async ({ store, root }) => {
  const keys = [
    { tenantId: "a", workloadRef: "b" },
    { tenantId: "a", workloadRef: "b.tar.gz" },
    { tenantId: "a", workloadRef: "b.tar.gz.tar.gz" },
    { tenantId: "A", workloadRef: "b" },
    { tenantId: "x-.-y", workloadRef: "b" },
  ];
  for (const each of keys) await write(store, `of ${each.tenantId}/${each.workloadRef}`, each);
  for (const each of keys) assert.is(await read(store, each), `of ${each.tenantId}/${each.workloadRef}`);
  assert.is((await store.list(call)).length, keys.length);
  writeFileSync(join(root, "secret.tar.gz"), "secret");
  for (const tenantId of ["..", ".", "", "a/b", "a/../b", "-a", "a\n", "$(id)", "x".repeat(64)]) {
    for (const bad of [
      { tenantId, workloadRef: "b" },
      { tenantId: "a", workloadRef: tenantId },
    ]) {
      const calls = [() => read(store, bad), () => write(store, "x", bad), () => store.delete(bad, call)];
      for (const attempt of calls) {
        assert.match(String(await attempt().catch((error: unknown) => error)), /TypeError: Cannot keep files/);
      }
    }
  }
});

test("deletes an archive, with a digest only that one", async ({ store, root }) => {
  const old = await write(store, "old");
  const current = await write(store, "new and longer");
  assert.not.ok(await store.delete(key, { ...call, sha256: old.sha256 }));
  assert.is(await readWhole(store), "new and longer");
  assert.ok(await store.delete(key, { ...call, sha256: current.sha256 }));
  assert.is(await readWhole(store), undefined);
  assert.equal(readdirSync(root), [".marked"]);
  assert.not.ok(await store.delete(key, call));
});

test("what is recorded of earlier archives goes with a save, once it is ten minutes old", async ({ store, root }) => {
  const folder = join(root, key.tenantId);
  const then = new Date(Date.now() - 11 * 60_000);
  for (const content of ["first", "second", "third"]) {
    await write(store, content);
    for (const name of readdirSync(folder)) utimesSync(join(folder, name), then, then);
  }
  await write(store, "fourth");
  await write(store, "fifth");
  assert.is(readdirSync(folder).filter((name) => name.endsWith(".json")).length, 2, "that of the fourth is young");
  assert.is(await readWhole(store), "fifth");
});

test("a deletion by digest spares an archive that takes the place while the digest is made", async ({
  store,
  root,
  folder,
}) => {
  const old = await write(store, "old");
  const busybox = join(folder, "busybox-that-is-overtaken");
  const newer = join(root, "newer");
  await write(store, "newer", { tenantId: "other", workloadRef: "c" });
  renameSync(join(root, "other/c.tar.gz"), newer);
  writeFileSync(
    busybox,
    `#!${staticBusybox} sh
case "$1" in timeout | sh) exec ${staticBusybox} "$@" ;; esac
${staticBusybox} "$@"
code=$?
[ "$1" != sha256sum ] || ${staticBusybox} mv -f '${newer}' '${join(root, "a.b/c.tar.gz.tar.gz")}'
exit $code
`,
  );
  chmodSync(busybox, 0o755);
  assert.not.ok(await storeIn(root, busybox).delete(key, { ...call, sha256: old.sha256 }));
  assert.is(readFileSync(join(root, "a.b/c.tar.gz.tar.gz"), "utf8"), "newer");
});

test("fails when an archive has changed, has lost what is beside it, or the volume is not there", async (context) => {
  const { store, root } = context;
  await write(store, "good");
  writeFileSync(join(root, "a.b/c.tar.gz.tar.gz"), "evil!");
  assert.match(String(await store.stat(key, call).catch((error: unknown) => error)), /Corrupt|has changed/);
  writeFileSync(join(root, "a.b/c.tar.gz.tar.gz"), "");
  assert.instance(await read(store).catch((error: unknown) => error), assert.Assertion, "no digest fits nothing");
  for (const name of readdirSync(join(root, "a.b"))) if (name.endsWith(".json")) rmSync(join(root, "a.b", name));
  assert.match(String(await store.stat(key, call).catch((error: unknown) => error)), /has changed/);
  assert.match(String(await read(store).catch((error: unknown) => error)), /ExecFailure: Cannot read the archive/);
  const nowhere = storeIn(join(context.folder, "nowhere"));
  for (const attempt of [() => read(nowhere), () => nowhere.stat(key, call), () => nowhere.list(call)]) {
    assert.match(String(await attempt().catch((error: unknown) => error)), /ExecFailure: .*nowhere/);
  }
});

test("keeps the old archive when the new one fails on its way", async ({ store, root }) => {
  await write(store, "the old one");
  async function* failing(): AsyncGenerator<Buffer> {
    yield Buffer.alloc(3_000_000, "x");
    throw new RangeError("the pod is gone");
  }
  const failed = store.write(key, failing(), { ...call, describe: () => description });
  assert.match(String(await failed.catch((error: unknown) => error)), /RangeError: the pod is gone/);
  assert.is(await readWhole(store), "the old one");
  const undescribed = store.write(key, chunks("whole"), {
    ...call,
    describe() {
      throw new RangeError("not whole");
    },
  });
  assert.match(String(await undescribed.catch((error: unknown) => error)), /RangeError: not whole/);
  assert.is(await readWhole(store), "the old one");
  const stop = new AbortController();
  async function* slow(): AsyncGenerator<Buffer> {
    yield Buffer.alloc(2_000_000, "x");
    stop.abort(new Error("stopped"));
    yield* chunks("more");
  }
  const stopped = store.write(key, slow(), { ...call, signal: stop.signal, describe: () => description });
  assert.match(String(await stopped.catch((error: unknown) => error)), /stopped/);
  assert.is(await readWhole(store), "the old one");
  assert.equal(partials(root), []);
});

test("a write that another has overtaken never takes its place, however late it goes on", async ({ store, root }) => {
  await write(store, "the old one");
  let goOn: (() => void) | undefined;
  const paused = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  async function* stopping(): AsyncGenerator<Buffer> {
    yield Buffer.alloc(3_000_000, "x");
    await paused;
  }
  const overtaken = store.write(key, stopping(), { ...call, describe: () => description });
  await waitUntil(() => partials(root).length > 0, { what: "the first write to begin", limitMs: 60_000 });
  await write(store, "what came after");
  goOn?.();
  assert.match(String(await overtaken.catch((error: unknown) => error)), /ExecFailure: Cannot store the archive/);
  assert.is(await readWhole(store), "what came after");
  assert.equal(partials(root), []);
});

test("has the old archive or the new one, whole, whichever step a crash follows", async ({ folder }) => {
  const outcomes: string[] = [];
  for (const [before, seconds] of [
    [true, 0],
    [false, 0],
  ] as const) {
    for (let step = 1; ; step += 1) {
      const root = join(folder, `crash-${before}-${step}`);
      mkdirSync(root);
      await write(storeIn(root), "the old one");
      age(join(root, "a.b"), seconds);
      const crashed = await write(
        storeIn(root, crashingBusybox(folder, { root, step, before })),
        "the new archive",
      ).then(
        () => false,
        () => true,
      );
      const content = await readWhole(storeIn(root));
      assert.ok(content === "the old one" || content === "the new archive", `step ${step}: ${content}`);
      if (!crashed) assert.is(content, "the new archive");
      // And the next one takes its place as always.
      await write(storeIn(root), "one after that");
      assert.is(await readWhole(storeIn(root)), "one after that");
      if (!crashed) break;
      outcomes.push(content ?? "");
    }
  }
  console.log(
    `note: ${outcomes.length} crashes, ${outcomes.filter((content) => content === "the old one").length} left the old archive`,
  );
  assert.ok(outcomes.includes("the old one") && outcomes.includes("the new archive"));
  assert.ok(outcomes.length >= 10);
});

test("has the archive or none, whichever step of a deletion a crash follows", async ({ folder }) => {
  for (let step = 1; ; step += 1) {
    const root = join(folder, `delete-${step}`);
    mkdirSync(root);
    await write(storeIn(root), "the archive");
    const busybox = crashingBusybox(folder, { root, step, before: step % 2 === 0 });
    const crashed = await storeIn(root, busybox)
      .delete(key, call)
      .then(
        () => false,
        () => true,
      );
    const content = await readWhole(storeIn(root));
    assert.ok(content === "the archive" || content === undefined);
    await write(storeIn(root), "one after that");
    assert.is(await readWhole(storeIn(root)), "one after that");
    if (!crashed) break;
  }
});

test("tidies what was left behind a day ago, and nothing that is under way", async ({ store, root }) => {
  await write(store, "kept");
  for (const [name, days] of [
    ["c.tar.gz.tar.gz.0badcafe.partial", 2],
    ["c.tar.gz.tar.gz.1badcafe.partial", 0],
  ] as const) {
    writeFileSync(join(root, "a.b", name), "partial");
    const then = Date.now() / 1000 - days * 86_400;
    utimesSync(join(root, "a.b", name), then, then);
  }
  await store.tidy(call);
  assert.equal(partials(root), ["c.tar.gz.tar.gz.1badcafe.partial"]);
  assert.is(await readWhole(store), "kept");
});

function partials(root: string): string[] {
  return readdirSync(join(root, "a.b")).filter((name) => name.endsWith(".partial"));
}

function age(folder: string, seconds: number): void {
  const then = Date.now() / 1000 - seconds;
  for (const name of readdirSync(folder)) utimesSync(join(folder, name), then, then);
}

/** A busybox that kills the script which runs it before or after one of its calls, as a lost node would. */
function crashingBusybox(folder: string, at: { root: string; step: number; before: boolean }): string {
  const path = join(folder, `busybox-${at.before}-${at.step}-${Math.random()}`);
  const count = `${path}.count`;
  const kill = 'kill -9 "$PPID"; kill -9 $$';
  writeFileSync(
    path,
    `#!${staticBusybox} sh
case "$1" in timeout | sh) exec ${staticBusybox} "$@" ;; esac
echo x >> '${count}'
[ "$(${staticBusybox} wc -l < '${count}')" = ${at.step} ] || exec ${staticBusybox} "$@"
${at.before ? "" : `${staticBusybox} "$@"`}
${kill}
`,
  );
  chmodSync(path, 0o755);
  return path;
}

test.run();
