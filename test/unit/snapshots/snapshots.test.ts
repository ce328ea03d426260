import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Callback, suite } from "uvu";
import * as assert from "uvu/assert";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import { type MostKept, type SnapshotStore, StoreConflict } from "../../../crds/snapshots/snapshot-store.ts";
import { TOOLS_BUSYBOX } from "../../../operator/snapshots/pods/pod-tools.ts";
import { createSnapshots, type Snapshots } from "../../../operator/snapshots/snapshots.ts";
import { localExec } from "./local-exec.ts";
import { staticBusybox } from "./static-busybox.ts";
import { call, key, load, MOST, save } from "./store-contract.ts";
import { isOverVolume, type ServedStore, serveStore } from "./store-server.ts";

interface Context {
  folder: string;
  served: ServedStore;
  archives: SnapshotStore;
  snapshots(options?: { most?: MostKept; archives?: SnapshotStore }): Snapshots;
  /** A pod whose one file has this content. */
  pod(name: string, content: string, annotations?: Record<string, string>): Pod;
  contentOf(pod: Pod): string;
}
const test = suite<Context>("createSnapshots");
/** Of what is done to the volume's own files. */
const testOfVolume: (name: string, run: Callback<Context>) => void = isOverVolume ? test : () => undefined;
const { signal } = call;
const led = { signal, isFenced: () => false };

test.before.each(async (context) => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-snapshots-"));
  mkdirSync(join(folder, "volume"));
  chmodSync(folder, 0o755);
  const served = await serveStore(join(folder, "volume"));
  // The command of a pod, in the folder that stands for it.
  const exec: Exec = ({ command, ...asked }) => {
    const at = command.indexOf(TOOLS_BUSYBOX, 1);
    const busybox = join(folder, asked.pod, "tools/busybox");
    const words = command
      .with(0, busybox)
      .with(at, busybox)
      .with(at + 1, join(folder, asked.pod));
    return localExec({ ...asked, command: words });
  };
  Object.assign(context, {
    ...{ folder, served, archives: served.store },
    snapshots: ({ most = MOST, archives = served.store } = {}) =>
      createSnapshots({
        ...{ exec, archives, most, namespace: "n", timeoutMs: 20_000 },
        mark: { advice: "", wasSeen: async () => false, remember: async () => undefined },
      }),
    pod(name, content, annotations = {}) {
      for (const made of ["data", "tools"]) mkdirSync(join(folder, name, made), { recursive: true });
      if (!existsSync(join(folder, name, "tools/busybox")))
        symlinkSync(staticBusybox, join(folder, name, "tools/busybox"));
      writeFileSync(join(folder, name, "data/file"), content);
      const all = { [annotation.overlayDirs]: '["/data"]', ...annotations };
      return { metadata: { name, uid: `uid of ${name}`, annotations: all }, spec: { containers: [] } };
    },
    contentOf: ({ metadata: { name } }) => readFileSync(join(folder, name, "data/file"), "utf8"),
  } satisfies Context);
});
test.after.each(async ({ folder, served }) => {
  await served.close();
  rmSync(folder, { recursive: true, maxRetries: 20 });
});

const resumed = (sha256: string) => ({ [annotation.resumedFrom]: sha256 });

async function versionsOf(archives: SnapshotStore): Promise<string[]> {
  const { versions } = await archives.look(key, call);
  return versions.map(({ sha256, kept }) => `${sha256.slice(0, 8)} ${kept}`);
}

test("a save replaces what its pod went on from, and keeps what it did not", async (context) => {
  const { archives, pod } = context;
  const snapshots = context.snapshots();
  const first = await snapshots.save(key, pod("a", "first"), led);
  assert.equal([first.replaced, first.podUid], [undefined, "uid of a"]);
  const second = await snapshots.save(key, pod("b", "second", resumed(first.sha256)), led);
  assert.equal([second.replaced, await versionsOf(archives)], [undefined, []]);
  const third = await snapshots.save(key, pod("c", "third"), led);
  assert.is(third.replaced?.sha256, second.sha256);
  assert.equal(await versionsOf(archives), [`${second.sha256.slice(0, 8)} replaced`]);
  // Of the first it has gone on, which is not what it replaces.
  const fourth = await snapshots.save(key, pod("d", "fourth", resumed(first.sha256)), led);
  assert.is(fourth.replaced?.sha256, third.sha256);
  // One that an operator bound which did not say yet which archive.
  const older = pod("e", "fifth", { [annotation.source]: "pool+data" });
  assert.is((await snapshots.save(key, older, led)).replaced, undefined);
});

test("a save and a restore tell how many bytes have passed, for who shares the bandwidth out", async (context) => {
  const [content, passed] = ["x".repeat(300_000), { saved: 0, restored: 0 }];
  const snapshots = context.snapshots();
  const from = context.pod("a", content);
  const saved = await snapshots.save(key, from, { ...led, onBytes: (bytes) => (passed.saved += bytes) });
  const into = context.pod("b", "");
  const restored = await snapshots.restore(key, into, {
    ...{ into: "running", signal },
    onBytes: (bytes) => (passed.restored += bytes),
  });
  assert.equal([context.contentOf(into), restored?.sha256], [content, saved.sha256]);
  assert.ok(saved.sizeBytes < 10_000 && passed.saved > 300_000 && passed.restored > 300_000, JSON.stringify(passed));
});

test("a save that is made again replaces its first try, whose answer was lost", async (context) => {
  const { archives, pod } = context;
  const snapshots = context.snapshots({ most: { history: 5, replaced: 3 } });
  const a = pod("a", "first");
  const first = await snapshots.save(key, a, led);
  writeFileSync(join(context.folder, "a/data/file"), "some more");
  const second = await snapshots.save(key, a, led);
  assert.is.not(second.sha256, first.sha256);
  assert.equal([second.replaced, await versionsOf(archives)], [undefined, []]);
});

test("a pod that came back without its files is not saved in the place of what it had", async (context) => {
  const { archives, pod, folder } = context;
  const snapshots = context.snapshots();
  const a = pod("a", "the tenant's");
  const idOf = (id: string) => writeFileSync(join(folder, "a/tools/overlay-id"), `${id}\n`);
  idOf("01");
  const first = await snapshots.save(key, a, { ...led, overlayId: "01" });
  idOf("02");
  writeFileSync(join(folder, "a/data/file"), "new");
  const refused = snapshots.save(key, a, { ...led, overlayId: "01" });
  assert.match(String(await refused.catch(String)), "the pod came back without the files that its tenant was given");
  assert.is((await archives.look(key, call)).newest?.sha256, first.sha256);
  // A claim that was not Active yet when the backup was made is given the pod as it is now.
  const later = await snapshots.save(key, a, { ...led, overlayId: "02" });
  assert.is(later.replaced?.sha256, first.sha256);
  assert.equal(await versionsOf(archives), [`${first.sha256.slice(0, 8)} replaced`]);
});

test("where versions are kept, each save leaves the archive that it went on from", async (context) => {
  const { archives, pod } = context;
  const snapshots = context.snapshots({ most: { history: 2, replaced: 3 } });
  let before = await snapshots.save(key, pod("p0", "content 0"), led);
  const digits = [before.sha256.slice(0, 8)];
  for (let index = 1; index < 5; index += 1) {
    before = await snapshots.save(key, pod(`p${index}`, `content ${index}`, resumed(before.sha256)), led);
    assert.is(before.replaced, undefined, "nobody is told of what is as it was asked for");
    digits.unshift(before.sha256.slice(0, 8));
  }
  assert.equal((await versionsOf(archives)).sort(), [`${digits[1]} history`, `${digits[2]} history`].sort());
});

test("a save in whose place another has saved meanwhile leaves that, and so does one of a former leader", async (context) => {
  const { archives, pod } = context;
  await context.snapshots().save(key, pod("a", "before"), led);
  const overtaken: SnapshotStore = {
    ...archives,
    async put(to, archive, options) {
      await save(archives, "meanwhile");
      return await archives.put(to, archive, options);
    },
  };
  const late = context.snapshots({ archives: overtaken }).save(key, pod("b", "late"), led);
  assert.instance(await late.catch((error: unknown) => error), StoreConflict);
  assert.is(await load(archives), "meanwhile");
  const isFenced = () => true;
  const fenced = context.snapshots().save(key, pod("c", "of a former leader"), { signal, isFenced });
  assert.match(String(await fenced.catch(String)), "another operator may be active");
  assert.is(await load(archives), "meanwhile");
});

testOfVolume("an archive that nothing recorded fits is not erased by a save", async (context) => {
  const { archives, pod, folder } = context;
  await save(archives, "good");
  const put = "put there by a person";
  writeFileSync(join(folder, "volume/a.b/c.tar.gz.tar.gz"), put);
  const saved = await context.snapshots().save(key, pod("a", "of a session"), led);
  assert.equal((await archives.look(key, call)).newest, saved);
  const digits = createHash("sha256").update(put).digest("hex").slice(0, 16);
  assert.is(readFileSync(join(folder, `volume/a.b/.versions/c.tar.gz/${digits}.tar.gz`), "utf8"), put);
});

test("a restore brings the archive that it was told, the newest or an older version, or says that it is gone", async (context) => {
  const { archives, pod, contentOf } = context;
  const snapshots = context.snapshots();
  const first = await snapshots.save(key, pod("a", "first"), led);
  const second = await snapshots.save(key, pod("b", "second"), led);
  for (const { sha256 } of [first, second]) {
    const into = pod("into", "of the image");
    const restored = await snapshots.restore(key, into, { into: "running", sha256, signal });
    assert.is(restored?.sha256, sha256);
    assert.is(contentOf(into), sha256 === first.sha256 ? "first" : "second");
  }
  const other = pod("other", "as it was");
  const gone = { into: "running", sha256: "0".repeat(64), signal } as const;
  assert.is(await snapshots.restore(key, other, gone), undefined);
  assert.is(contentOf(other), "as it was", "nothing was begun");
  const foreign: SnapshotStore = {
    ...archives,
    open: (from, _sha256, options) => archives.open(from, first.sha256, options),
  };
  const wrong = context.snapshots({ archives: foreign }).restore(key, other, { ...gone, sha256: second.sha256 });
  assert.match(String(await wrong.catch(String)), "another archive than the requested one");
  assert.is(contentOf(other), "as it was");
});

testOfVolume(
  "a restore of an archive whose bytes have changed fails before the pod hears that all is there",
  async (context) => {
    const { pod } = context;
    const snapshots = context.snapshots();
    const { sha256 } = await snapshots.save(key, pod("a", "first"), led);
    const path = join(context.folder, "volume/a.b/c.tar.gz.tar.gz");
    const changed = readFileSync(path);
    // The byte of gzip's header that names the operating system: only the digest tells.
    changed[9] = 7;
    writeFileSync(path, changed);
    const restore = snapshots.restore(key, pod("into", ""), { into: "running", sha256, signal });
    assert.match(String(await restore.catch(String)), "ArchiveError: its SHA-256 is not the one that was recorded");
  },
);

test("deletes what is kept when it was not used for so long, and nothing that is saved meanwhile", async (context) => {
  const { archives } = context;
  const snapshots = context.snapshots();
  const usedKeys = async () => (await snapshots.uses({ limit: 10 }, signal)).items;
  await save(archives, "old");
  const [use] = await usedKeys();
  assert.ok(use !== undefined && Math.abs(Date.parse(use.usedAt) - Date.now()) < 60_000);
  assert.is(await snapshots.delete(use, { unusedForMs: 3_600_000, signal }), false);
  const meanwhile: SnapshotStore = {
    ...archives,
    async delete(of, options) {
      await save(archives, "newest");
      return await archives.delete(of, options);
    },
  };
  assert.is(await context.snapshots({ archives: meanwhile }).delete(use, { unusedForMs: 0, signal }), false);
  assert.is(await load(archives), "newest");
  assert.is(await snapshots.delete(use, { unusedForMs: 0, signal }), true);
  assert.equal(await usedKeys(), []);
});

test.run();
