import { type ChildProcess, execFileSync } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  cpSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Callback, suite } from "uvu";
import * as assert from "uvu/assert";
import type { TableEntry } from "../../../crds/archive/archive-table.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import { type SnapshotStore, StoreConflict } from "../../../crds/snapshots/snapshot-store.ts";
import { createChangeList } from "../../../operator/snapshots/pods/changed-files.ts";
import { createListParser } from "../../../operator/snapshots/pods/file-list.ts";
import { readPodTime, SAY_POD_TIME } from "../../../operator/snapshots/pods/pod-time.ts";
import { createEntryList, createUnchangedCheck } from "../../../operator/snapshots/pods/unchanged-files.ts";
import { createSnapshots, type Snapshots } from "../../../operator/snapshots/snapshots.ts";
import { execInFolders, makeWaitingPod } from "./local-pods.ts";
import { staticBusybox } from "./static-busybox.ts";
import { call, key, listAll, MOST, save } from "./store-contract.ts";
import { isOverVolume, type ServedStore, serveStore } from "./store-server.ts";
import { makeTree, treeLines } from "./tree.ts";

interface Context {
  folder: string;
  /** What reads them in the place of containers that wait. */
  gates: ChildProcess[];
  served: ServedStore;
  snapshots: Snapshots;
  saved: SnapshotMetadata;
  /** Restores what was saved into a pod of this name, and resolves with its folder. */
  restore(name: string, into?: "waiting" | "running", spec?: object): Promise<{ pod: Pod; data: string }>;
}
const test = suite<Context>("files that nobody changed");
/** What is changed in a pod each, of one archive that stays as it is. */
const testOfChanges = suite<Context>("files that nobody changed, after a change");
/** Of what can be seen of the volume's own files. */
const testOfVolume: (name: string, run: Callback<Context>) => void = isOverVolume ? test : () => undefined;
const { signal } = call;
const led = { signal, isFenced: () => false };

async function prepare(context: Context): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-unchanged-"));
  chmodSync(folder, 0o755);
  mkdirSync(join(folder, "volume"));
  const served = await serveStore(join(folder, "volume"));
  const exec = execInFolders(folder);
  const mark = { advice: "", wasSeen: async () => false, remember: async () => undefined };
  const snapshots = createSnapshots({
    ...{ exec, mark, archives: served.store, most: MOST, namespace: "n", timeoutMs: 20_000 },
  });
  const podIn = (name: string, spec: object = {}, sha256 = ""): Pod => ({
    metadata: {
      ...{ name, uid: `uid of ${name}` },
      annotations: { [annotation.overlayDirs]: '["/data","/more"]', [annotation.resumedFrom]: sha256 },
    },
    spec: { containers: [], ...spec },
  });
  const gates: ChildProcess[] = [];
  for (const name of ["from/data", "from/more"]) mkdirSync(join(folder, name), { recursive: true });
  makeTree(join(folder, "from/data"));
  // What is in it does not matter here, and every save reads all of it.
  truncateSync(join(folder, "from/data/sparse"), 4096);
  for (const [name, mode] of [
    ["deep", 0o755],
    ["empty", 0o700],
  ] as const) {
    chmodSync(join(folder, "from/data", name), mode);
    utimesSync(join(folder, "from/data", name), MTIME, MTIME);
  }
  // A pipe is not restored.
  unlinkSync(join(folder, "from/data/pipe"));
  for (const name of ["one", "two"]) writeFileSync(join(folder, "from/more", name), name.repeat(1000));
  for (const name of ["one", "two"]) utimesSync(join(folder, "from/more", name), ...TIMES);
  for (const name of ["blue", "green"]) {
    mkdirSync(join(folder, "from/more", name));
    writeFileSync(join(folder, "from/more", name, "config"), name.slice(0, 4));
    utimesSync(join(folder, "from/more", name, "config"), ...TIMES);
    utimesSync(join(folder, "from/more", name), ...TIMES);
  }
  const saved = await snapshots.save(key, podIn("from"), led);
  Object.assign(context, {
    ...{ folder, gates, served, snapshots, saved },
    async restore(name, into = "waiting", spec = {}) {
      const root = join(folder, name);
      gates.push(makeWaitingPod(root, ["data", "more"]));
      const pod = podIn(name, spec, saved.sha256);
      await snapshots.restore(key, pod, { into, sha256: saved.sha256, signal });
      if (into === "running") writeFileSync(`${root}.gate`, "");
      return { pod, data: join(root, "data") };
    },
  } satisfies Context);
}
async function end({ folder, gates, served, snapshots }: Context): Promise<void> {
  for (const gate of gates) gate.kill();
  snapshots.close();
  await served.close();
  rmSync(folder, { recursive: true, maxRetries: 20 });
}
test.before.each(prepare);
test.after.each(end);
testOfChanges.before(prepare);
testOfChanges.after(end);

testOfVolume("files that were only read are not saved again, and noted to be in use", async (context) => {
  const { folder, restore, saved, served, snapshots } = context;
  const { pod, data } = await restore("into");
  assert.equal(treeLines(data), treeLines(join(folder, "from/data")));
  readFileSync(join(data, "plain"));
  const archive = join(folder, "volume/a.b/c.tar.gz.tar.gz");
  const inode = lstatSync(archive).ino;
  utimesSync(archive, 1, 1);
  const { isUnchanged, ...again } = await snapshots.save(key, pod, led);
  assert.is(isUnchanged, true);
  assert.equal(again, saved);
  assert.is(lstatSync(archive).ino, inode);
  const [entry] = await listAll(served.store, { versions: false });
  assert.ok(Math.abs(Date.parse(entry?.usedAt ?? "") - Date.now()) < 60_000);
});

const [MTIME, TIMES] = [1_700_000_000, [1_700_000_000, 1_700_000_000] as const];
const changes: [string, (more: string, data: string) => void][] = [
  [
    "a byte, with the time of before",
    (more) => setTimes(more, () => writeFileSync(join(more, "one"), "One".repeat(1000))),
  ],
  ["a byte", (more) => writeFileSync(join(more, "one"), "One".repeat(1000))],
  [
    "a byte that is appended and taken away",
    (more) =>
      setTimes(more, () => {
        appendFileSync(join(more, "one"), "x");
        truncateSync(join(more, "one"), 3000);
      }),
  ],
  ["its size", (more) => setTimes(more, () => appendFileSync(join(more, "one"), "x"))],
  ["its mode", (more) => chmodSync(join(more, "one"), 0o600)],
  ["its time", (more) => utimesSync(join(more, "one"), MTIME + 1, MTIME + 1)],
  ["a file in whose place a copy was put", (more) => replaceByCopy(more)],
  ["two files that changed names", (more) => swap(more)],
  ["two folders that changed names, with files of the same names, sizes and times", (more) => swapFolders(more)],
  ["a file that is gone", (more) => setTimes(more, () => unlinkSync(join(more, "two")))],
  ["a new file", (more) => setTimes(more, () => writeFileSync(join(more, "three"), ""))],
  ["a new file with a line break in its name", (more) => setTimes(more, () => writeFileSync(join(more, "a\nb"), ""))],
  ["a new folder", (more) => setTimes(more, () => mkdirSync(join(more, "folder")))],
  ["a folder that is gone", (_more, data) => rmdirSync(join(data, "empty"))],
  ["a folder's mode", (_more, data) => chmodSync(join(data, "empty"), 0o750)],
  ["the modes of two folders, against each other", (_more, data) => swapModes(data)],
  ["a link to somewhere else", (_more, data) => relink(data)],
  ["another name of a file", (more) => setTimes(more, () => linkSync(join(more, "one"), join(more, "three")))],
  ["a pipe", (more) => execFileSync(staticBusybox, ["mkfifo", join(more, "pipe")])],
];

/** Does something to the files of a folder, and sets all times back. */
function setTimes(more: string, change: () => void): void {
  change();
  utimesSync(join(more, "one"), ...TIMES);
  utimesSync(more, ...TIMES);
}

function replaceByCopy(more: string): void {
  const copy = join(more, "..", "copy");
  cpSync(join(more, "one"), copy, { preserveTimestamps: true });
  renameSync(copy, join(more, "one"));
}

function swap(more: string): void {
  renameSync(join(more, "one"), join(more, "..", "other"));
  renameSync(join(more, "two"), join(more, "one"));
  renameSync(join(more, "..", "other"), join(more, "two"));
}

function swapFolders(more: string): void {
  renameSync(join(more, "blue"), join(more, "other"));
  renameSync(join(more, "green"), join(more, "blue"));
  renameSync(join(more, "other"), join(more, "green"));
}

function swapModes(data: string): void {
  chmodSync(join(data, "deep"), 0o700);
  chmodSync(join(data, "empty"), 0o755);
}

function relink(data: string): void {
  unlinkSync(join(data, "dangling"));
  symlinkSync("elsewhere", join(data, "dangling"));
}

for (const [index, [what, change]] of changes.entries()) {
  testOfChanges(`what was changed is saved: ${what}`, async (context) => {
    const { folder, restore, served, snapshots } = context;
    const { pod, data } = await restore(`into-${index}`);
    change(join(folder, `into-${index}/more`), data);
    const { put } = served.store;
    Object.assign(served.store, {
      async put() {
        throw new Error("it is saved");
      },
    });
    const error = await snapshots.save(key, pod, led).catch((error: unknown) => error);
    Object.assign(served.store, { put });
    assert.match(String(error), "it is saved");
  });
}

test("all is saved where the program ran during the restore, or the kernel is another than the node's", async (context) => {
  const { restore, snapshots } = context;
  const { pod: warm } = await restore("warm", "running");
  assert.is((await snapshots.save(key, warm, led)).isUnchanged, undefined);
  const { pod: gvisor } = await restore("gvisor", "waiting", { runtimeClassName: "gvisor" });
  assert.is((await snapshots.save(key, gvisor, led)).isUnchanged, undefined);
});

test("all is saved where another archive is the newest by now, or another operator restored the files", async (context) => {
  const { restore, served, snapshots } = context;
  const { pod: forgotten } = await restore("forgotten");
  const { pod } = await restore("into");
  snapshots.forgetPod(forgotten);
  assert.is((await snapshots.save(key, forgotten, led)).isUnchanged, undefined);
  await save(served.store, "another", key, { keep: "replaced" });
  const saved = await snapshots.save(key, pod, led);
  assert.equal([saved.isUnchanged, saved.replaced !== undefined], [undefined, true]);
});

test("files that nobody changed are saved where their archive may yet be erased, and outlive that", async (context) => {
  const { restore, served, snapshots } = context;
  const { pod } = await restore("into");
  const { revision } = await served.store.look(key, call);
  assert.is((await snapshots.save(key, pod, { ...led, isErased: true })).isUnchanged, undefined);
  const late = await served.store.delete(key, { ...call, replaces: revision }).catch((error: unknown) => error);
  assert.instance(late, StoreConflict);
  assert.ok((await served.store.look(key, call)).newest);
});

test("files that nobody changed are saved where their archive is erased meanwhile", async (context) => {
  const { restore, saved, served, snapshots } = context;
  const { pod } = await restore("into");
  const { touch } = served.store;
  const erasing: Partial<SnapshotStore> = {
    async touch(keys, asked) {
      await touch(keys, asked);
      await served.store.delete(key, call);
    },
  };
  Object.assign(served.store, erasing);
  const overtaken = await snapshots.save(key, pod, led).catch((error: unknown) => error);
  assert.instance(overtaken, StoreConflict);
  Object.assign(served.store, { touch });
  await snapshots.save(key, pod, led);
  const { newest } = await served.store.look(key, call);
  assert.equal([newest?.entries, newest?.contentBytes], [saved.entries, saved.contentBytes]);
});

test("files that nobody changed are saved where their archive is named and cannot be read", async (context) => {
  const { restore, saved, served, snapshots } = context;
  const { pod } = await restore("into");
  const { open } = served.store;
  Object.assign(served.store, { open: async () => undefined });
  await snapshots.save(key, pod, led);
  Object.assign(served.store, { open });
  const { newest } = await served.store.look(key, call);
  assert.is.not(newest?.createdAt, saved.createdAt);
});

const now = "2026-11-23 00:00:10.500000000";
const secondsOf = (time: string) => Date.parse(`${time.replace(" ", "T").slice(0, 23)}Z`) / 1000;
const at = { now, clock: secondsOf(now), uptime: [1000, 1000] } as const;
const roots = ["data"];
const file = (ctime: string, path = "data/file") =>
  `81a4 1 8:7 3 1700000000 2023-11-14 22:13:20.000000000 +0000|${ctime} +0000|./${path}//\n`;
const folder = (ctime: string) => file(ctime, "data").replace("81a4 1 8:7 3", "41ed 2 8:6 0");
const before = "2026-11-23 00:00:10.412345678";
const END = "good 0 0\n";
const list = (time: string, uptime: string, ...lines: string[]) =>
  `answer at ${time} +0000 ${secondsOf(time).toFixed(6)} ${uptime} ${uptime}\nfile system ef53\n${folder(before)}${lines.join("")}${END}`;

/** Whether a list, which comes in pieces, shows one restored file as it was. */
function isUnchanged(output: string, path = "data/file"): boolean {
  const entries = createEntryList(roots);
  const entry = { type: "file", mode: 0o644, uid: 0, gid: 0, target: "" } as const;
  entries.add({ ...entry, path, mtime: 1_700_000_000, size: 3 });
  const check = createUnchangedCheck({ digest: entries.digest(), at, folders: undefined }, { roots });
  const parser = createListParser([check], { maxEntries: 1000, heads: roots.length });
  for (let start = 0; start < output.length && parser.end === undefined; start += 7) {
    parser.take(Buffer.from(output.slice(start, start + 7), "latin1"));
  }
  return parser.end !== undefined && check.isUnchanged();
}

const inFolder = { mode: 0o644, uid: 0, gid: 0, mtime: 1_700_000_000, target: "", at: 0 } as const;
const archived = (path: string, sha256: string): TableEntry => ({ ...inFolder, type: "file", path, size: 3, sha256 });
const archivedFolder: TableEntry = {
  ...{ ...inFolder, type: "directory", mode: 0o755, path: "data", size: 0, sha256: undefined },
};

/** What has to be read, by a list of files that are in an archive; undefined if that is everything. */
function namesToRead(output: string, files: readonly TableEntry[], isStill = true): string | undefined {
  const entries = [archivedFolder, ...files];
  const table = { members: [], entries: () => entries[Symbol.iterator]() as Generator<TableEntry> };
  const list = createChangeList({ table, at, folders: { count: 1, has: () => isStill } }, { roots });
  createListParser([list], { maxEntries: 1000, heads: roots.length }).take(Buffer.from(output));
  const changes = list.changes();
  return typeof changes === "string" ? undefined : changes.names.toString();
}

test("createListParser: a list that says something else, or does not stop, is refused", () => {
  const start = list(now, "1000.00").slice(0, -END.length);
  const parse = (more: string) => {
    const parser = createListParser([], { maxEntries: 1000, heads: roots.length });
    assert.is(parser.take(Buffer.from(start)), undefined);
    return () => parser.take(Buffer.from(more));
  };
  for (const more of ["odd//\n", "good 1 0\n", "good 0\n", "a".repeat(20_000), `${"a".repeat(20_000)}//\n`]) {
    assert.throws(parse(more), /other lines than it should/);
  }
  assert.throws(parse(file(before).repeat(1000)), /more than 1000 entries/);
  assert.is(parse(`${END}and more`)()?.toString(), "and more");
  assert.is(parse("failed\nwhy")()?.toString(), "failed\nwhy");
});

test("createListParser: a name may be like the end of a list, or like an entry", () => {
  for (const name of [
    "a\nb",
    "a\ngood 0 0\nb",
    `a\n${file(before).slice(0, -3).replaceAll("/", ":")}`,
    "good 0 0\n",
    "a:\n",
  ]) {
    const path = `data/${name}`;
    assert.ok(isUnchanged(list(now, "1000.00", file(before, path)), path), JSON.stringify(name));
  }
});

test("createUnchangedCheck: nothing is known of a list that is cut off, or shows something else", () => {
  const whole = list(now, "1000.00", file(before));
  assert.ok(isUnchanged(whole));
  for (const cut of [whole.slice(0, -1), whole.slice(0, -END.length), ""]) assert.not.ok(isUnchanged(cut));
  assert.not.ok(isUnchanged(whole.replace(END, "good 0 1\n")), "a name that vanished");
  assert.not.ok(isUnchanged(list(now, "1000.00", file(before, "else/file"))));
  assert.not.ok(isUnchanged(list(now, "1000.00")));
});

test("createUnchangedCheck: a file system that may not show a change of a mapped file is not believed", () => {
  const whole = list(now, "1000.00", file(before));
  for (const type of ["58465342", "9123683e"]) {
    assert.ok(isUnchanged(whole.replace("ef53", type)));
  }
  // tmpfs, overlayfs, NFS, and one that says nothing.
  for (const type of ["1021994", "794c7630", "6969", ""]) {
    assert.not.ok(isUnchanged(whole.replace("ef53", type)), type);
  }
});

test("createUnchangedCheck: names that were exchanged show in their directory alone on some file systems", () => {
  const whole = list(now, "1000.00", file(before));
  for (const changed of [folder("2026-11-23 00:00:10.500000001"), ""]) {
    assert.not.ok(isUnchanged(whole.replace(folder(before), changed)));
  }
});

test("createUnchangedCheck: a clock that was set back, or times that are rounded, may hide a change", () => {
  const known = (time: string, uptime: string, ctime = before) => isUnchanged(list(time, uptime, file(ctime)));
  assert.equal(
    [
      known("2026-11-23 01:00:10.500000000", "4600.00"),
      known("2026-11-23 02:00:10.500000000", "4600.00"),
      known("2026-11-23 00:59:10.500000000", "4600.00"),
      known("2026-11-23 01:00:10.500000000", "10.00"),
      known(now, "1000.00", "2026-11-23 00:00:10.000000000"),
      known(now, "1000.00", "2026-11-23 00:00:10.500000001"),
      known(now, "1000.00", now),
    ],
    [true, true, false, false, false, false, false],
  );
});

test("createChangeList: only what may have changed is read, and in any doubt everything", () => {
  const one = [archived("data/file", "one")];
  const read = (time: string, uptime: string, ctime = before) => namesToRead(list(time, uptime, file(ctime)), one);
  const later = "2026-11-23 01:00:10.500000000";
  assert.is(read(later, "4600.00"), "");
  assert.is(namesToRead(list(later, "4600.00", file(before)), one, false), "'data' 'data/file'", "another folder");
  // The first is of the tick in which the restore ended.
  for (const ctime of [now, "2026-11-23 00:00:10.500000001"]) {
    const both = [...one, archived("data/other", "other")];
    const names = namesToRead(list(later, "4600.00", file(ctime), file(before, "data/other")), both);
    assert.is(names, "'data' 'data/file'", ctime);
  }
  assert.equal(
    [
      read("2026-11-23 00:59:10.500000000", "4600.00"),
      read(later, "10.00"),
      read(now, "1000.00", "2026-11-23 00:00:10.000000000"),
      namesToRead(list(later, "4600.00", file(before)).replace("ef53", "1021994"), one),
      namesToRead(list(later, "4600.00", file(before)).replace(END, "good 0 1\n"), one),
      namesToRead(list(later, "4600.00", file(before)).replace(folder(before), ""), one),
    ],
    Array(6).fill(undefined),
    "a clock that was set back, a restart, rounded times, a file system in memory, a vanished name, a missing folder",
  );
});

// https://github.com/torvalds/linux/blob/master/fs/xfs/xfs_inode.c: xfs_cross_rename
test("createChangeList: names that were exchanged on XFS show in their folder alone", () => {
  const paths = ["data/one", "data/two", "data/three"];
  const files = paths.map((path) => archived(path, path === "data/three" ? "data/two" : path));
  const lines = paths.map((path) => file(before, path));
  const [still, touched] = [before, "2026-11-23 00:00:10.500000001"].map((ctime) =>
    list(now, "1000.00", ...lines).replace(folder(before), folder(ctime)),
  ) as [string, string];
  const onXfs = (output: string) => output.replace("ef53", "58465342");
  assert.is(namesToRead(onXfs(still), files), "");
  assert.is(namesToRead(onXfs(touched), files), "'data' 'data/one' 'data/two' 'data/three'");
  assert.is(namesToRead(onXfs(touched), files.slice(1)), "'data' 'data/one'", "two of the same content");
  assert.is(namesToRead(touched, files), "", "on ext4");
});

test("a pod's clocks are read together, also where programs start slowly and the node stops the shell", () => {
  const start = `slow() { ${staticBusybox} sleep 0.1; ${staticBusybox} "$@"; }; b=slow`;
  const stop = `read() { n=$((n + 1)); [ $n != 2 ] || ${staticBusybox} sleep 0.3; command read "$@"; }`;
  const output = execFileSync(staticBusybox, ["sh", "-c", `${start}; ${stop}; ${SAY_POD_TIME}`], { encoding: "utf8" });
  const { now = "", clock = 0, uptime: [before, after] = [0, 1] } = readPodTime(output) ?? {};
  assert.ok(after - before < 0.02, output);
  // What changed before the clock was set back in between would otherwise count as later.
  assert.ok(secondsOf(now) > clock + 0.05, output);
});

test.run();
testOfChanges.run();
