// @limit 300
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
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import { type ArchiveStore, createArchiveStore } from "../../../operator/snapshots/archive-store.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { localExec, untilCommandsEnd } from "./local-exec.ts";
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

function write(
  store: ArchiveStore,
  content: string,
  to = key,
  { createdAt = description.createdAt, ...options }: { replaces?: string; keeps?: boolean; createdAt?: string } = {},
) {
  return store.write(to, chunks(content), { ...call, describe: () => ({ ...description, createdAt }), ...options });
}

async function read(store: ArchiveStore, from = key, wanted?: string): Promise<string | undefined> {
  const parts: Buffer[] = [];
  const archive = new Writable({
    write(chunk: Buffer, _encoding, callback) {
      parts.push(chunk);
      callback();
    },
  });
  // It has what the read fails with.
  archive.on("error", () => undefined);
  const recorded = await store.read(from, archive, { ...call, sha256: wanted });
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
  const [{ usedAt, ...listed } = { usedAt: "" }, ...others] = await store.list(call);
  assert.equal([listed, others], [second, []]);
  assert.ok(Math.abs(Date.parse(usedAt) - Date.now()) < 3_600_000);
  assert.ok(existsSync(join(root, "a.b/c.tar.gz.tar.gz")), "where users find it");
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

test("a deletion and a save that meet leave the archive that the save has written", async ({ store, root, folder }) => {
  const old = await write(store, "old");
  const next = storeIn(root);
  const saves: Promise<unknown>[] = [];
  // Between the look at the archive and its removal.
  const paused = pausingBusybox(folder, { program: "grep", before: false });
  const deletion = storeIn(root, paused.path).delete(key, { ...call, sha256: old.sha256 });
  await waitUntil(paused.isReached, { what: "the deletion to look at the archive", limitMs: 60_000 });
  saves.push(write(next, "newer and longer"));
  await waitUntil(() => partials(root).length === 2, { what: "the save to wait", limitMs: 60_000 });
  paused.goOn();
  assert.ok(await deletion);
  await Promise.all(saves);
  assert.is(await readWhole(store), "newer and longer");
  assert.not.ok(await store.delete(key, { ...call, sha256: old.sha256 }));
  assert.is(await readWhole(store), "newer and longer");
});

test("a deletion for age takes only what nothing has used for so long, by the volume's clock", async ({
  store,
  root,
}) => {
  const archive = join(root, "a.b/c.tar.gz.tar.gz");
  const { sha256 } = await write(store, "old");
  const then = Date.now() / 1000 - 1000;
  utimesSync(archive, then, then);
  assert.not.ok(await store.delete(key, { ...call, sha256, unusedForSeconds: 5000 }));
  await store.touch([key, { tenantId: "nobody", workloadRef: "w" }], call);
  assert.not.ok(await store.delete(key, { ...call, sha256, unusedForSeconds: 900 }));
  assert.is(await readWhole(store), "old");
  utimesSync(archive, then, then);
  assert.ok(await store.delete(key, { ...call, sha256, unusedForSeconds: 900 }));
  assert.equal(readdirSync(root), [".marked"]);
});

test("a save replaces only the archive that it found at its begin, however late its command starts", async ({
  store,
  root,
}) => {
  const { sha256: first } = await write(store, "the first");
  let start: () => void = () => undefined;
  const started = new Promise<void>((resolve) => {
    start = resolve;
  });
  let isAsked = false;
  const lateExec: Exec = async (target) => {
    isAsked = true;
    await started;
    return await localExec(target);
  };
  const late = createArchiveStore({
    exec: lateExec,
    folder: { namespace: "n", pod: "p", container: "c", root, busybox: staticBusybox },
  }).write(key, chunks("of a former leader"), { ...call, describe: () => description, replaces: first });
  await waitUntil(() => isAsked, { what: "the late save to be sent", limitMs: 60_000 });
  await write(store, "what came after", key, { replaces: first });
  start();
  assert.match(String(await late.catch((error: unknown) => error)), /is another than when this save began/);
  assert.is(await readWhole(store), "what came after");
  const none = write(store, "of one who found none", key, { replaces: "none" });
  assert.match(String(await none.catch((error: unknown) => error)), /is another than when this save began/);
  assert.is(await readWhole(store), "what came after");
  assert.equal(partials(root), []);
});

test("a lock is taken over from a script that was killed, and by one alone", async ({ store, root, folder }) => {
  await write(store, "the first");
  const paused = pausingBusybox(folder, { program: "mv", before: true });
  const killed = write(storeIn(root, paused.path), "never there");
  killed.catch(() => undefined);
  await waitUntil(paused.isReached, { what: "the write to hold the lock", limitMs: 60_000 });
  process.kill(paused.pid(), "SIGKILL");
  assert.instance(await killed.catch((error: unknown) => error), Error);
  assert.ok(readdirSync(join(root, "a.b")).includes(".lock"), "it is left behind");
  const others = Array.from({ length: 4 }, (_, index) =>
    write(store, `written by ${index}`, { tenantId: key.tenantId, workloadRef: `w${index}` }),
  );
  await Promise.all(others);
  assert.is((await store.list(call)).length, 5);
  assert.equal(
    readdirSync(join(root, "a.b")).filter((name) => name.startsWith(".")),
    [],
  );
});

test("what a save keeps is an older version, found and read by its digits", async ({ store, root }) => {
  const first = await write(store, "the first");
  const second = await write(store, "the second one", key, { replaces: first.sha256, keeps: true });
  assert.is(await readWhole(store), "the second one");
  for (const version of [first.sha256, first.sha256.slice(0, 16)]) {
    assert.equal(await store.stat(key, { ...call, version }), first);
  }
  assert.equal(await store.stat(key, { ...call, version: second.sha256 }), second);
  assert.is(await read(store, key, first.sha256), "the first");
  assert.is(await read(store, key, second.sha256), "the second one");
  assert.is(await read(store, key, "0".repeat(64)), undefined);
  assert.is((await store.list(call)).length, 1, "of each the newest alone");
  const unknown = await store.stat(key, { ...call, version: "0123456789abcdef" }).catch((error: unknown) => error);
  assert.match(
    String(unknown),
    `ArchiveError: there is no version 0123456789abcdef of it: there are ${second.sha256.slice(0, 16)} of ${second.createdAt} (the newest), `,
  );
  assert.match(String(unknown), first.sha256.slice(0, 16));
  assert.ok(await store.delete(key, call));
  assert.equal(readdirSync(root), [".marked"]);
});

test("of older versions the newest three stay", async ({ store }) => {
  const written: string[] = [];
  for (let index = 0; index < 6; index += 1) {
    const createdAt = new Date(Date.UTC(2026, 0, 1 + index)).toISOString();
    const { sha256 } = await write(store, `number ${index}`, key, { keeps: true, createdAt });
    written.push(sha256);
  }
  const isThere = await Promise.all(
    written.map((version) =>
      store.stat(key, { ...call, version }).then(
        () => true,
        () => false,
      ),
    ),
  );
  assert.equal(isThere, [false, false, true, true, true, true]);
});

test("an archive of another tenant or workload is neither found, read, replaced nor deleted", async ({
  store,
  root,
}) => {
  await write(store, "of alice", { tenantId: "alice", workloadRef: "w" });
  const Alice = { tenantId: "Alice", workloadRef: "w" };
  // As a volume does that ignores case: what is looked for under one name is found under another.
  symlinkSync("alice", join(root, "Alice"));
  for (const attempt of [
    () => store.stat(Alice, call),
    () => store.identify(Alice, call),
    () => read(store, Alice, "0".repeat(64)),
  ]) {
    const error = await attempt().catch((thrown: unknown) => thrown);
    assert.instance(error, ArchiveError);
    assert.match(String(error), '/snapshots/Alice/w.tar.gz is of tenant "alice" and workload "w", not of "Alice"');
  }
  const written = write(store, "of Alice", { tenantId: "Alice", workloadRef: "other" });
  assert.match(String(await written.catch((error: unknown) => error)), /ignores case, and another tenant's folder/);
  assert.not.ok(await store.delete(Alice, call));
  rmSync(join(root, "Alice"));
  assert.is(await read(store, { tenantId: "alice", workloadRef: "w" }), "of alice");
  // A folder that was given another name.
  renameSync(join(root, "alice"), join(root, "Alice"));
  assert.match(String(await store.stat(Alice, call).catch((error: unknown) => error)), /ArchiveError/);
  assert.instance(await read(store, Alice).catch((error: unknown) => error), assert.Assertion, "nothing of hers fits");
  assert.equal(await store.list(call), []);
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

test("ends the stream that it was to write to, whichever of its commands fails", async ({ store, root }) => {
  const { sha256 } = await write(store, "content");
  for (const failing of [1, 2]) {
    let commands = 0;
    const exec: Exec = async (options) => {
      commands += 1;
      if (commands === failing) throw new Error("the helper pod is gone");
      return await localExec(options);
    };
    const folder = { namespace: "n", pod: "p", container: "c", root, busybox: staticBusybox };
    const archive = new Writable({ write: (_chunk, _encoding, callback) => callback() });
    archive.on("error", () => undefined);
    try {
      await createArchiveStore({ exec, folder }).read(key, archive, { ...call, sha256 });
      assert.unreachable();
    } catch (error) {
      assert.match(String(error), "the helper pod is gone");
    }
    assert.is(archive.destroyed, true, `command ${failing} failed`);
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
  // Who stops a write does not wait until its script has tidied up.
  await untilCommandsEnd();
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

/** A busybox that stops before or after its first call of a program, until it is told to go on. */
function pausingBusybox(folder: string, at: { program: string; before: boolean }) {
  const path = join(folder, `busybox-${Math.random()}`);
  const [reached, goOn] = [`${path}.reached`, `${path}.go-on`];
  const wait = `if (set -C; echo "$PPID" > '${reached}') 2>/dev/null; then
  until [ -e '${goOn}' ]; do [ -d /proc/$PPID ] || exit 137; ${staticBusybox} sleep 0.02; done
fi`;
  writeFileSync(
    path,
    `#!${staticBusybox} sh
case "$1" in timeout | sh) exec ${staticBusybox} "$@" ;; esac
[ "$1" = ${at.program} ] || exec ${staticBusybox} "$@"
${at.before ? wait : `${staticBusybox} "$@"; code=$?; ${wait}; exit $code`}
exec ${staticBusybox} "$@"
`,
  );
  chmodSync(path, 0o755);
  return {
    path,
    isReached: () => existsSync(reached) && readFileSync(reached, "utf8").endsWith("\n"),
    pid: () => Number(readFileSync(reached, "utf8")),
    goOn: () => writeFileSync(goOn, ""),
  };
}

test.run();
