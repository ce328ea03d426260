import { execFileSync } from "node:child_process";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { archiveLimits } from "../../../crds/archive/archive-limits.ts";
import { type TarEntry, writeTarHeader } from "../../../crds/archive/tar-header.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import { restoreOverlay } from "../../../operator/snapshots/pods/restore-overlay.ts";
import { saveOverlay } from "../../../operator/snapshots/pods/save-overlay.ts";
import { localExec, unprivilegedExec } from "./local-exec.ts";
import { overlayStore } from "./overlay-store.ts";
import { staticBusybox } from "./static-busybox.ts";
import { type ServedStore, serveStore } from "./store-server.ts";
import { makeTree, treeLines } from "./tree.ts";

// A copy of its own: the cache that the original may stand in is closed to other users where the home folder is.
const tools = mkdtempSync(join(tmpdir(), "tenancy-round-trip-tools-"));
chmodSync(tools, 0o755);
copyFileSync(staticBusybox, join(tools, "busybox"));
chmodSync(join(tools, "busybox"), 0o755);
const where = { namespace: "here", pod: "this", container: "machine", busybox: join(tools, "busybox") };
const isRoot = process.getuid?.() === 0;
const key = { tenantId: "Tenant_1", workloadRef: "shell" };
const limits = archiveLimits({ diskGb: 1 });
const call = { signal: new AbortController().signal, timeoutMs: 60_000 };

interface Context {
  folder: string;
  served: ServedStore;
  store: ReturnType<typeof overlayStore>;
  newest(): Promise<SnapshotMetadata | undefined>;
}
const test = suite<Context>("saveOverlay and restoreOverlay");

test.before.each(async (context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-round-trip-"));
  chmodSync(context.folder, 0o755);
  for (const name of ["from/data/one", "from/data/two", "to/data/one", "to/data/two", "volume"]) {
    mkdirSync(join(context.folder, name), { recursive: true });
    chmodSync(join(context.folder, name), 0o777);
  }
  context.served = await serveStore(join(context.folder, "volume"));
  context.store = overlayStore(context.served.store, key);
  context.newest = async () => (await context.served.store.look(key, call)).newest;
});
test.after.each(async ({ folder, served }) => {
  await served.close();
  rmSync(folder, { recursive: true, maxRetries: 20 });
});
test.after(() => rmSync(tools, { recursive: true }));

const users = [
  ["a user without rights", unprivilegedExec],
  ["root", localExec],
] as const;
for (const [who, exec] of isRoot ? users : users.slice(0, 1)) {
  test(`keep everything of a tree, as ${who}`, async ({ folder, store, newest }) => {
    const from = join(folder, "from");
    makeTree(join(from, "data/one"));
    writeFileSync(join(from, "data/two/second"), "second");
    if (isRoot && exec === unprivilegedExec) execFileSync("chown", ["-hR", "65532:65532", from]);
    // chown takes these bits away.
    chmodSync(join(from, "data/one/mode-4755"), 0o4755);
    chmodSync(join(from, "data/one/mode-2755"), 0o2755);
    const overlayDirs = ["/data/one", "/data/two/"];
    const pod = { ...where, root: from };
    const saved = await saveOverlay({ exec, ...store, pod, overlayDirs, limits, ...call });
    assert.is(saved.uid, !isRoot ? process.getuid?.() : exec === localExec ? 0 : 65532);
    assert.equal(await newest(), saved);

    const to = join(folder, "to");
    mkdirSync(join(to, "data/one/left/over"), { recursive: true });
    writeFileSync(join(to, "data/one/left/over/file"), "of the session before");
    chmodSync(join(to, "data/one/left/over"), 0o555);
    if (isRoot && exec === unprivilegedExec) execFileSync("chown", ["-R", "65532:65532", to]);
    const target = { ...where, root: to };
    const restored = await restoreOverlay({
      ...{ ...store, exec, pod: target, overlayDirs, limits, opensGate: false },
      ...call,
    });
    assert.equal(restored, saved);
    for (const name of ["data/one", "data/two"]) {
      assert.equal(treeLines(join(to, name)), treeLines(join(from, name)));
    }
    assert.not.ok(existsSync(join(to, "data/one/pipe")), "a pipe is left out");
  });
}

test("give back an empty tree for an empty tree", async ({ folder, store }) => {
  const overlayDirs = ["/data/one"];
  await saveOverlay({
    ...{ ...store, exec: localExec, pod: { ...where, root: join(folder, "from") }, overlayDirs, limits },
    ...call,
  });
  const to = join(folder, "to");
  writeFileSync(join(to, "data/one/made-at-boot"), "");
  await restoreOverlay({
    ...{ ...store, exec: localExec, pod: { ...where, root: to }, overlayDirs, limits, opensGate: false },
    ...call,
  });
  assert.equal(readdirSync(join(to, "data/one")), []);
});

test("say so when there is no archive, and when the workload has other directories by now", async ({
  folder,
  store,
}) => {
  const from = { ...where, root: join(folder, "from") };
  const to = { ...where, root: join(folder, "to") };
  const common = { ...store, exec: localExec, limits, ...call };
  const restore = { ...common, pod: to, opensGate: false };
  assert.is(await restoreOverlay({ ...restore, overlayDirs: ["/data/one"] }), undefined);
  writeFileSync(join(folder, "from/data/two/file"), "");
  await saveOverlay({ ...common, pod: from, overlayDirs: ["/data/one", "/data/two"] });
  const error = await restoreOverlay({ ...restore, overlayDirs: ["/data/one"] }).catch((cause: unknown) => cause);
  assert.match(String(error), /ArchiveError: entry "data\/two.*" is outside the overlay directories/);
});

const made = { mode: 0o644, uid: 0, gid: 0, mtime: 1, size: 0, target: "" };

/** Restores an archive of such entries into the folder that stands for a pod. */
async function restoreEntries({ folder, served, store }: Context, entries: readonly TarEntry[]) {
  const archive = gzipSync(Buffer.concat([...entries.map(writeTarHeader), Buffer.alloc(1024)]));
  const overlayDirs = ["/data/one"];
  const described = { uid: 0, gid: 0, createdAt: new Date().toISOString(), entries: 3, contentBytes: 1, overlayDirs };
  await served.store.put(key, Readable.from([archive]), {
    ...{ ...call, most: { history: 0, replaced: 0 }, describe: () => described },
    replaces: (await served.store.look(key, call)).revision,
  });
  const pod = { ...where, root: join(folder, "to") };
  return await restoreOverlay({
    ...{ ...store, exec: unprivilegedExec, pod, overlayDirs, limits, opensGate: false },
    ...call,
  });
}

test("restore all but the hard links to files that an earlier version did not save, and name these", async (context) => {
  const restored = await restoreEntries(context, [
    { ...made, type: "directory", path: "data/one" },
    { ...made, type: "hardlink", path: "data/one/link", target: "data/one/moved" },
    { ...made, type: "file", path: "data/one/file" },
  ]);
  assert.equal(restored?.lost, ["data/one/link"]);
  assert.equal(readdirSync(join(context.folder, "to/data/one")), ["file"]);
});

test("restore a folder that comes after what is in it, and takes the right to enter it", async (context) => {
  await restoreEntries(context, [
    { ...made, type: "directory", path: "data/one/a/b", mode: 0o555 },
    { ...made, type: "file", path: "data/one/a/c", mode: 0o2644 },
    { ...made, type: "directory", path: "data/one/a", mode: 0o400 },
  ]);
  const modeOf = (name: string) => lstatSync(join(context.folder, "to/data/one", name)).mode & 0o7777;
  assert.equal([modeOf("a"), isRoot ? modeOf("a/b") : 0o555], [0o400, 0o555]);
  chmodSync(join(context.folder, "to/data/one/a"), 0o755);
});

test("fail when a file cannot be read, and keep the archive before", async ({ folder, store, newest }) => {
  const from = { ...where, root: join(folder, "from") };
  const save = { ...store, exec: unprivilegedExec, pod: from, overlayDirs: ["/data/one"], limits, ...call };
  const saved = await saveOverlay(save);
  writeFileSync(join(folder, "from/data/one/locked"), "");
  chmodSync(join(folder, "from/data/one/locked"), 0);
  if (isRoot) chownSync(join(folder, "from/data/one/locked"), 65532, 65532);
  const error = await saveOverlay(save).catch((cause: unknown) => cause);
  assert.match(String(error), /ExecFailure: Cannot save the overlay directories: .*locked.*Permission denied/);
  assert.equal(await newest(), saved);
});

// Only root can make a small disk.
(isRoot ? test : test.skip)("fail when the pod's disk is full", async ({ folder, store }) => {
  const from = join(folder, "from");
  writeFileSync(join(from, "data/one/big"), Buffer.alloc(8 * 1024 * 1024, "x"));
  const common = { ...store, exec: localExec, overlayDirs: ["/data/one"], limits, ...call };
  await saveOverlay({ ...common, pod: { ...where, root: from } });
  const to = join(folder, "to");
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=2m", "tmpfs", join(to, "data/one")]);
  try {
    const error = await restoreOverlay({ ...common, pod: { ...where, root: to }, opensGate: false }).catch(
      (cause: unknown) => cause,
    );
    assert.match(String(error), /ExecFailure: Cannot restore the files: .*No space left/s);
  } finally {
    execFileSync("umount", [join(to, "data/one")]);
  }
});

test.run();
