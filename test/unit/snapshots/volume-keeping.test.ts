import { execFileSync } from "node:child_process";
import {
  closeSync,
  constants,
  existsSync,
  lutimesSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { type SnapshotStore, StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { createTurns } from "../../../operator/snapshots/helper/store/turns.ts";
import { withVolumeLock } from "../../../operator/snapshots/helper/store/volume-lock.ts";
import { createVolumeState } from "../../../operator/snapshots/helper/store/volume-state.ts";
import { createVolumeTenants } from "../../../operator/snapshots/helper/store/volume-tenants.ts";
import { createVolumeUploads } from "../../../operator/snapshots/helper/store/volume-uploads.ts";
import { errorOf } from "../../error-of.ts";
import { eventually } from "../../eventually.ts";
import { staticBusybox } from "./static-busybox.ts";
import { call, key, listAll, load, MOST, save } from "./store-contract.ts";
import { serveStore } from "./store-server.ts";
import { volumeSuite } from "./volume-suite.ts";

const test = volumeSuite("what the volume's store keeps");

const digits = /\.([0-9a-f]{16})\.json$/;
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

function age(path: string, ms: number): void {
  const then = new Date(Date.now() - ms);
  utimesSync(path, then, then);
}

function ageFiles(root: string, { tenantId }: SnapshotKey, ms: number): void {
  for (const name of readdirSync(join(root, tenantId))) age(join(root, tenantId, name), ms);
}

test("what is recorded of earlier archives goes with a save, once it is ten minutes old", async ({ root, store }) => {
  const folder = join(root, key.tenantId);
  for (const content of ["first", "second", "third"]) {
    await save(store, content);
    for (const name of readdirSync(folder)) age(join(folder, name), 11 * MINUTE_MS);
  }
  await save(store, "fourth");
  await save(store, "fifth");
  assert.is(readdirSync(folder).filter((name) => digits.test(name)).length, 2, "that of the fourth is young");
  assert.is(await load(store), "fifth");
});

test("archives of the same size are told apart", async ({ store }) => {
  const saved = [];
  for (const content of ["same size 1", "same size 2", "same size 3"]) saved.push(await save(store, content));
  assert.is(await load(store), "same size 3");
  assert.equal((await store.look(key, call)).newest, saved[2]?.metadata);
  assert.equal((await listAll(store, { versions: false }))[0]?.metadata, saved[2]?.metadata);
});

/** Looks, and waits where the archive and the names of all that is recorded were seen. */
async function lookAndWait(archive: string, store: SnapshotStore) {
  // What is read as a record ends when all who write to it have closed it.
  const pipe = `${archive}.${"0".repeat(16)}.json`;
  execFileSync(staticBusybox, ["mkfifo", pipe]);
  const found = store.look(key, call);
  let writer = -1;
  await eventually(() => {
    try {
      writer = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENXIO") throw error;
    }
    return writer >= 0;
  });
  unlinkSync(pipe);
  return { found, goOn: () => closeSync(writer) };
}

test("an archive that another takes the place of while it is looked at is not one that nothing recorded fits", async ({
  root,
  store,
}) => {
  const { metadata } = await save(store, "the one after");
  const archive = join(root, "a.b/c.tar.gz.tar.gz");
  const record = `${archive}.${metadata.sha256.slice(0, 16)}.json`;
  for (const path of [archive, record]) renameSync(path, `${path}.later`);
  writeFileSync(archive, "the one");
  const looking = await lookAndWait(archive, store);
  for (const path of [record, archive]) renameSync(`${path}.later`, path);
  looking.goOn();
  assert.equal((await looking.found).newest, metadata);
});

test("an archive that is deleted while it is looked at is none", async ({ root, store }) => {
  for (const content of ["same size 1", "same size 2"]) await save(store, content);
  const archive = join(root, "a.b/c.tar.gz.tar.gz");
  const looking = await lookAndWait(archive, store);
  unlinkSync(archive);
  looking.goOn();
  assert.is((await looking.found).state, "none");
});

test("an archive that is replaced while it is copied is not copied as the one before", async ({ root }) => {
  const state = createVolumeState(root);
  const to = { ...key, tenantId: "to" };
  for (const contents of [
    ["one", "another"],
    ["same size 1", "same size 2"],
  ] as const) {
    const served = await serveStore(root);
    const first = await save(served.store, contents[0]);
    let isReplaced = false;
    async function find(from: SnapshotKey, sha256: string) {
      const found = await state.find(from, sha256);
      if (!isReplaced) await save(served.store, contents[1]);
      isReplaced = true;
      return found;
    }
    const uploads = createVolumeUploads({
      state: { ...state, find },
      tenants: createVolumeTenants({ root }),
      turns: createTurns(),
      now: Date.now,
    });
    const from = { ...key, sha256: first.metadata.sha256 };
    assert.is(await uploads.receiveKept(to, from, { id: "0".repeat(32), isMarked: true }), undefined);
    assert.is(existsSync(join(root, to.tenantId)), false);
    await served.close();
  }
});

test("the sweep leaves the locks of those who are at work", async ({ root, store }) => {
  await save(store, "one");
  const folder = join(root, key.tenantId);
  await withVolumeLock(folder, call, async () => {
    await store.tidy(call);
    assert.ok(readdirSync(folder).includes(".lock"));
    lutimesSync(join(folder, ".lock"), 1, 1);
    await store.tidy(call);
    assert.not.ok(readdirSync(folder).includes(".lock"));
    symlinkSync("given back below", join(folder, ".lock"));
  });
});

test("a deletion for age takes only what nothing has used for so long, by the volume's clock", async ({
  root,
  store,
}) => {
  await save(store, "old");
  ageFiles(root, key, 1_000_000);
  assert.is(await store.delete(key, { ...call, unusedForMs: 5_000_000 }), false);
  await store.touch([key, { tenantId: "nobody", workloadRef: "w" }], call);
  assert.is(await store.delete(key, { ...call, unusedForMs: 900_000 }), false);
  assert.is(await load(store), "old");
  ageFiles(root, key, 1_000_000);
  assert.is(await store.delete(key, { ...call, unusedForMs: 900_000 }), true);
  assert.equal(readdirSync(root), [".helper", ".marked"]);
});

test("an archive that was just made is in use, whatever a node's clock says", async ({ root, store }) => {
  await save(store, "new", key, { createdAt: new Date().toISOString() });
  ageFiles(root, key, 1_000_000);
  const [listed] = await listAll(store, { versions: false });
  assert.ok(Date.now() - Date.parse(listed?.usedAt ?? "") < 900_000);
  assert.is(await store.delete(key, { ...call, unusedForMs: 900_000 }), false);
});

test("a copy and what it is of are each in use by themselves", async ({ root, store }) => {
  const copy = { tenantId: "copy", workloadRef: "w" };
  const { metadata } = await save(store, "old");
  const { revision: replaces } = await store.look(copy, call);
  const createdAt = "2026-11-22T00:00:00.000Z";
  await store.adopt(copy, { ...key, sha256: metadata.sha256 }, { ...call, replaces, most: MOST, createdAt });
  for (const [used, unused] of [
    [copy, key],
    [key, copy],
  ] as const) {
    for (const each of [used, unused]) ageFiles(root, each, 1_000_000);
    await store.touch([used], call);
    const usedAt = async ({ tenantId }: SnapshotKey) =>
      Date.parse((await listAll(store, { versions: false, tenantId }))[0]?.usedAt ?? "");
    assert.ok((await usedAt(used)) - (await usedAt(unused)) > 900_000);
    assert.is(await store.delete(used, { ...call, unusedForMs: 900_000 }), false);
  }
  assert.is(await store.delete(copy, { ...call, unusedForMs: 900_000 }), true);
  assert.is(await load(store), "old");
});

test("an archive is in use by its own time too, which the version before has set", async ({ root, store }) => {
  const archive = join(root, "a.b/c.tar.gz.tar.gz");
  await save(store, "one");
  ageFiles(root, key, 1_000_000);
  utimesSync(archive, new Date(), new Date());
  assert.is(await store.delete(key, { ...call, unusedForMs: 900_000 }), false);
  // And that version finds what this one has noted.
  ageFiles(root, key, 1_000_000);
  await store.touch([key], call);
  assert.ok(Date.now() - statSync(archive).mtimeMs < 900_000);
  // Nothing is recorded of it.
  for (const name of readdirSync(join(root, "a.b"))) if (digits.test(name)) unlinkSync(join(root, "a.b", name));
  ageFiles(root, key, 1_000_000);
  await store.touch([key], call);
  assert.is(await store.delete(key, { ...call, unusedForMs: 900_000 }), false);
});

test("tidies what was left behind a day ago, and nothing that is under way", async ({ root, store }) => {
  await save(store, "kept");
  const left = (name: string) => join(root, "a.b", `c.tar.gz.tar.gz.${name}badcafe.partial`);
  for (const name of ["0", "1"]) writeFileSync(left(name), "partial");
  age(left("0"), 2 * DAY_MS);
  await store.tidy(call);
  assert.equal([existsSync(left("0")), existsSync(left("1"))], [false, true]);
  assert.is(await load(store), "kept");
});

test("on a volume that ignores case, an archive of another tenant is neither found, read, replaced nor deleted", async ({
  root,
  store,
}) => {
  const alice = { tenantId: "alice", workloadRef: "w" };
  const Alice = { tenantId: "Alice", workloadRef: "w" };
  const { metadata } = await save(store, "of alice", alice);
  // What is looked for under one name is found under another.
  symlinkSync("alice", join(root, "Alice"));
  for (const attempt of [
    () => store.look(Alice, call),
    () => store.open(Alice, metadata.sha256, call),
    () => store.delete(Alice, call),
  ]) {
    const error = await errorOf(attempt());
    assert.instance(error, ArchiveError);
    assert.match(String(error), '/snapshots/Alice/w.tar.gz is of tenant "alice" and workload "w", not of "Alice"');
  }
  rmSync(join(root, "Alice"));
  assert.is(await load(store, alice), "of alice");
  // A folder that was given another name.
  renameSync(join(root, "alice"), join(root, "Alice"));
  assert.instance(await errorOf(store.look(Alice, call)), ArchiveError);
  assert.equal(
    (await listAll(store, { versions: false })).map((entry) => entry.metadata),
    [undefined],
  );
});

test("a volume that is not there, or cannot be looked at, is not one without the archive", async ({ root, store }) => {
  assert.is((await store.look(key, call)).state, "unmarked");
  renameSync(root, `${root}-away`);
  for (const attempt of [() => store.look(key, call), () => listAll(store, { versions: false })]) {
    assert.instance(await errorOf(attempt()), StoreError);
  }
  renameSync(`${root}-away`, root);
  writeFileSync(join(root, key.tenantId), "where a folder should be");
  assert.match(String(await errorOf(store.look(key, call))), "ENOTDIR");
  rmSync(join(root, key.tenantId));
  mkdirSync(join(root, key.tenantId, `${key.workloadRef}.tar.gz`), { recursive: true });
  assert.is((await store.look(key, call)).state, "unrecorded");
});

test.run();
