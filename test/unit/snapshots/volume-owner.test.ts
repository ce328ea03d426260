import { createHash, randomBytes } from "node:crypto";
import {
  cpSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { StoreConflict, StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { createDeferred } from "../../../crds/waits.ts";
import { createTurns } from "../../../operator/snapshots/helper/store/turns.ts";
import { createVolume, type Volume } from "../../../operator/snapshots/helper/store/volume.ts";
import { createVolumeChanges } from "../../../operator/snapshots/helper/store/volume-changes.ts";
import { createVolumeCheckpoints } from "../../../operator/snapshots/helper/store/volume-checkpoints.ts";
import { createVolumeCommits } from "../../../operator/snapshots/helper/store/volume-commits.ts";
import { createVolumeDeletions } from "../../../operator/snapshots/helper/store/volume-deletions.ts";
import { withVolumeLock } from "../../../operator/snapshots/helper/store/volume-lock.ts";
import { createVolumeOwner } from "../../../operator/snapshots/helper/store/volume-owner.ts";
import { createVolumeState } from "../../../operator/snapshots/helper/store/volume-state.ts";
import { createVolumeTenants } from "../../../operator/snapshots/helper/store/volume-tenants.ts";
import { createVolumeUploads } from "../../../operator/snapshots/helper/store/volume-uploads.ts";
import { createVolumeUsage } from "../../../operator/snapshots/helper/store/volume-usage.ts";
import { errorOf } from "../../error-of.ts";
import { eventually } from "../../eventually.ts";
import { call, key, load, MOST, pieces, save } from "./store-contract.ts";
import { type ServedStore, serveStore } from "./store-server.ts";

const test = suite<{ folder: string; root: string; served: ServedStore[] }>("two servers of one snapshots volume");

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-owner-"));
  context.root = join(context.folder, "volume");
  mkdirSync(context.root);
  writeFileSync(join(context.root, ".marked"), "");
  context.served = [];
});
test.after.each(async ({ folder, served }) => {
  await Promise.all(served.map(({ close }) => close()));
  rmSync(folder, { recursive: true, maxRetries: 20 });
});

async function serve({ root, served }: { root: string; served: ServedStore[] }): Promise<ServedStore["store"]> {
  const owner = (): string => {
    try {
      return readlinkSync(join(root, ".helper"));
    } catch {
      return "";
    }
  };
  const before = owner();
  const one = await serveStore(root);
  served.push(one);
  await eventually(() => owner() !== before);
  return one.store;
}

test("the one that was started last changes it, and the other says so", async (context) => {
  const first = await serve(context);
  await save(first, "of the first");
  const second = await serve(context);
  const late = await errorOf(save(first, "late"));
  assert.ok(late instanceof StoreError && late.isTransient, String(late));
  assert.ok((await errorOf(first.delete(key, call))) instanceof StoreError);
  assert.equal([await load(first), await load(second)], ["of the first", "of the first"]);
  await save(second, "of the second");
  assert.is(await load(second), "of the second");
});

test("what was deleted by one is not brought back by a save that the other has begun", async (context) => {
  const first = await serve(context);
  const { revision: replaces } = await first.look(key, call);
  const isGone = createDeferred<void>();
  async function* slow(): AsyncGenerator<Uint8Array> {
    yield* pieces("of the first");
    await isGone.promise;
  }
  const saving = errorOf(save(first, slow(), key, { replaces }));
  const second = await serve(context);
  await save(second, "of the second");
  assert.is(await second.delete(key, call), true);
  isGone.resolve();
  const error = await saving;
  assert.ok(error instanceof StoreError || error instanceof StoreConflict, String(error));
  assert.is((await second.look(key, call)).state, "none");
});

/** A server of the volume that stands still before its first look at whose volume it is, after that, and so on. */
async function standingStill(
  root: string,
  nth: number,
  meanwhile: () => Promise<void>,
  { dies, after }: { dies?: () => void; after?: () => void } = {},
) {
  const [turns, owner] = [createTurns(), createVolumeOwner(root)];
  const state = createVolumeState(root, owner);
  const { check } = owner;
  await owner.take();
  let moments = 0;
  const moment = async () => {
    moments += 1;
    if (moments === nth) await meanwhile();
    if (moments === nth + 1) after?.();
    if (moments === nth + 1 && dies !== undefined) {
      dies();
      await new Promise(() => undefined);
    }
  };
  Object.assign(owner, {
    async check() {
      await moment();
      await check();
      await moment();
    },
  });
  const tenants = createVolumeTenants({ root });
  const uploads = createVolumeUploads({ state, tenants, turns, now: Date.now });
  const usage = createVolumeUsage({ tenants, turns, listTenant: async () => [] });
  const checkpoints = createVolumeCheckpoints({ state, owner, uploads, usage });
  const changes = { podUid: "a", now: Date.now, state, uploads, owner, usage, checkpoints, turns };
  const changeIn = createVolumeChanges({ ...changes, tenants });
  const { delete: erase } = createVolumeDeletions({ ...changes, changeIn });
  return { look: state.look, receive: uploads.receive, ...createVolumeCommits(changes), delete: erase };
}

type Changed = Pick<Volume, "look" | "receive" | "commit">;

async function commitTo(volume: Changed, content: string, most = MOST): Promise<void> {
  const [id, { revision: replaces }] = [randomBytes(16).toString("hex"), await volume.look(key)];
  const received = await volume.receive(key, pieces(content), { id, isMarked: true, signal });
  const described = { uid: 1, gid: 1, entries: 1, contentBytes: 1, overlayDirs: [] };
  const metadata = { ...received, ...key, ...described, createdAt: new Date().toISOString() };
  await volume.commit(key, { id, replaces, keep: "replaced", most, metadata }, signal);
}

/** The newest archive and older versions, each as what is recorded of it says. */
async function contentsOf(root: string, state: Pick<Volume, "look" | "open"> = createVolumeState(root)) {
  const { newest, versions } = await state.look(key);
  const found = [];
  for (const metadata of [newest, ...versions]) {
    const opened = metadata && (await state.open(key, metadata.sha256));
    const content = await opened?.handle.readFile();
    await opened?.handle.close();
    assert.is(
      createHash("sha256")
        .update(content ?? "")
        .digest("hex"),
      metadata?.sha256,
    );
    found.push(String(content));
  }
  return found;
}

/** Copies a volume, and has its records be old enough to be tidied. */
function copyOld(from: string, to: string): void {
  cpSync(from, to, { recursive: true, verbatimSymlinks: true });
  const records = readdirSync(join(to, key.tenantId)).filter((name) => name.endsWith(".json"));
  for (const name of records) utimesSync(join(to, key.tenantId, name), 1, 1);
}

const changes = [
  ["commit", (volume: Changed) => commitTo(volume, "late", { history: 0, replaced: 1 })],
  ["commit of an older version", (volume: Changed) => commitTo(volume, "one")],
  ["deletion", ({ delete: erase }: Pick<Volume, "delete">) => erase(key, {}, signal)],
] as const;
for (const [what, act] of changes) {
  for (const content of ["of the other", "one"]) {
    test(`one that stands still in a ${what} takes nothing of what the other saves meanwhile: ${content}`, async ({
      folder,
    }) => {
      const before = join(folder, "volume");
      for (const each of ["one", "two", "three"]) await commitTo(createVolume({ root: before }), each);
      for (let nth = 1; ; nth += 1) {
        const root = join(folder, `${nth}`);
        copyOld(before, root);
        let saved: string[] | undefined;
        const error = await errorOf(
          act(
            await standingStill(root, nth, async () => {
              lutimesSync(join(root, key.tenantId, ".lock"), 1, 1);
              const other = createVolume({ root, podUid: "b" });
              await other.takeOver();
              await commitTo(other, content);
              saved = await contentsOf(root);
            }),
          ),
        );
        if (saved === undefined) {
          assert.is(error, undefined);
          assert.ok(nth > 10, `there are ${nth - 1} moments`);
          return;
        }
        assert.equal([await contentsOf(root), saved[0]], [saved, content], `at moment ${nth}`);
        // After its last look it has done what it was asked for, before the other came.
        const isTold = error === undefined || error instanceof StoreError || error instanceof StoreConflict;
        assert.ok(isTold, `at moment ${nth}: ${error}`);
        const left = readdirSync(root, { recursive: true }).map(String);
        assert.equal(
          left.filter((name) => name.endsWith(".partial")),
          [],
        );
      }
    });
  }
}

// A commit of an older version finds nothing to take away where the other has saved.
for (const [what, act] of [changes[0], changes[2]]) {
  test(`one that stands still in a ${what}, goes on and dies has taken nothing of what the other saved`, async ({
    folder,
  }) => {
    const before = join(folder, "volume");
    for (const each of ["one", "two", "three"]) await commitTo(createVolume({ root: before }), each);
    let deaths = 0;
    for (let nth = 1; ; nth += 1) {
      const root = join(folder, `${nth}`);
      copyOld(before, root);
      const other = createVolume({ root, podUid: "b" });
      let saved: string[] | undefined;
      const death = createDeferred<void>();
      const late = await standingStill(
        root,
        nth,
        async () => {
          lutimesSync(join(root, key.tenantId, ".lock"), 1, 1);
          await other.takeOver();
          await commitTo(other, "of the other");
          saved = await contentsOf(root);
        },
        { dies: death.resolve },
      );
      const acted = errorOf(act(late)).then(() => "alive");
      const end = await Promise.race([acted, death.promise.then(() => "dead")]);
      if (saved === undefined) break;
      if (end === "dead") deaths += 1;
      assert.is((await contentsOf(root, other))[0], "of the other", `at moment ${nth}`);
      const next = createVolume({ root, podUid: "c" });
      await next.takeOver();
      assert.equal(await contentsOf(root, next), saved, `at moment ${nth}`);
    }
    assert.ok(deaths > 3, `it died ${deaths} times`);
  });
}

test("what another has taken and left is erased with the archive", async ({ root }) => {
  const volume = createVolume({ root });
  await volume.takeOver();
  await commitTo(volume, "one");
  const archive = join(root, key.tenantId, `${key.workloadRef}.tar.gz`);
  cpSync(archive, `${archive}.${"0".repeat(32)}.taken`);
  assert.is(await volume.delete(key, {}, signal), true);
  assert.equal([(await volume.look(key)).newest, readdirSync(root).sort()], [undefined, [".helper", ".marked"]]);
});

test("a deletion is told of only once nothing is there, whatever another gives back meanwhile", async ({ folder }) => {
  const before = join(folder, "volume");
  for (const each of ["one", "two"]) await commitTo(createVolume({ root: before }), each);
  for (let nth = 1; ; nth += 1) {
    const root = join(folder, `${nth}`);
    cpSync(before, root, { recursive: true, verbatimSymlinks: true });
    const places = join(root, key.tenantId);
    const other: string[] = [];
    let isOver = true;
    const volume = await standingStill(
      root,
      nth,
      async () => {
        isOver = false;
        // As one that has looked whether it is the owner just before.
        const names = readdirSync(places, { recursive: true }).map(String);
        for (const name of names.filter((each) => each.endsWith(".tar.gz"))) {
          renameSync(join(places, name), join(places, `${name}.${"a".repeat(32)}.taken`));
          other.push(join(places, name));
        }
      },
      {
        after: () => {
          for (const path of other.splice(0)) {
            try {
              renameSync(`${path}.${"a".repeat(32)}.taken`, path);
            } catch {
              // It is deleted by now.
            }
          }
        },
      },
    );
    const error = await errorOf(volume.delete(key, {}, signal));
    if (isOver) break;
    if (error !== undefined) continue;
    const left = createVolume({ root, podUid: "c" });
    await left.takeOver();
    const found = [(await left.look(key)).state, (await left.list({ versions: true, limit: 10 })).items];
    assert.equal(found, ["none", []], `at moment ${nth}`);
  }
});

test("a deletion that fails in the middle leaves nothing that comes back after the next one", async ({ root }) => {
  const volume = createVolume({ root });
  await volume.takeOver();
  for (const each of ["one", "two"]) await commitTo(volume, each);
  const archive = join(root, key.tenantId, `${key.workloadRef}.tar.gz`);
  // As of a removal whose last step failed, and which could not put it back.
  renameSync(archive, `${archive}.${"0".repeat(32)}.taken`);
  assert.is(await volume.delete(key, {}, signal), true);
  const next = createVolume({ root });
  await next.takeOver();
  assert.equal([(await next.look(key)).state, readdirSync(root).sort()], ["none", [".helper", ".marked"]]);
});

test("an older version whose deletion was interrupted is there for the first look", async ({ root }) => {
  const volume = createVolume({ root });
  await volume.takeOver();
  for (const each of ["one", "two"]) await commitTo(volume, each);
  const { versions } = await volume.look(key);
  const folder = join(root, key.tenantId, ".versions", key.workloadRef);
  for (const name of readdirSync(folder))
    renameSync(join(folder, name), join(folder, `${name}.${"0".repeat(32)}.taken`));
  assert.equal((await createVolume({ root }).look(key)).versions, versions);
});

test("a volume that comes from elsewhere is the server's that finds it", async (context) => {
  const store = await serve(context);
  unlinkSync(join(context.root, ".helper"));
  await save(store, "x");
  assert.is(await load(store), "x");
});

test("a volume without its mark is left as it is", async ({ root, served }) => {
  unlinkSync(join(root, ".marked"));
  const { store, close } = await serveStore(root);
  served.push({ store, close } as ServedStore);
  assert.is((await store.look(key, call)).state, "unmarked");
  assert.equal(readdirSync(root), []);
  await save(store, "the first");
  assert.equal(readdirSync(root).sort(), [".helper", ".marked", key.tenantId]);
});

const { signal } = new AbortController();

/** Whether the lock is taken within what a holder that is gone is waited for. */
async function isTaken(root: string, podUid: string, ms = 300): Promise<boolean> {
  const ending = AbortSignal.timeout(ms);
  return await withVolumeLock(root, { signal: ending, podUid }, async () => true).catch(() => false);
}

test("a lock of another pod holds, though a process of its number runs here too", async ({ root }) => {
  let name = "";
  await withVolumeLock(root, { signal, podUid: "a-1" }, async () => {
    name = readlinkSync(join(root, ".lock"));
    assert.is(await isTaken(root, "b-2"), false);
  });
  // Of a container of the same pod, which is gone: its process had another start.
  symlinkSync(name.replace(/\d+$/, "1"), join(root, ".lock"));
  assert.is(await isTaken(root, "a-1", 60_000), true);
  // Of a pod that is gone, as nothing has changed for a minute.
  symlinkSync(name, join(root, ".lock"));
  assert.is(await isTaken(root, "b-2"), false);
  lutimesSync(join(root, ".lock"), Date.now() / 1000 - 90, Date.now() / 1000 - 90);
  assert.is(await isTaken(root, "b-2", 60_000), true);
});

test("who stood still until another had the lock gives back none of the other's", async ({ root }) => {
  const lock = join(root, ".lock");
  await withVolumeLock(root, { signal, podUid: "a-1" }, async () => {
    lutimesSync(lock, Date.now() / 1000 - 90, Date.now() / 1000 - 90);
    await withVolumeLock(root, { signal, podUid: "b-2" }, async () => undefined);
    symlinkSync("another.1.1", lock);
  });
  assert.ok(readdirSync(root).includes(".lock"));
  unlinkSync(lock);
  const error = await errorOf(
    withVolumeLock(root, { signal, podUid: "a-1" }, async () => {
      unlinkSync(lock);
      throw new Error("why it failed");
    }),
  );
  assert.match(String(error), /why it failed/);
});

test("a lock of another pod whose clock was ahead holds no longer than others", async ({ root }) => {
  const lock = join(root, ".lock");
  symlinkSync("gone.1.1", lock);
  const tomorrow = Date.now() / 1000 + 86_400;
  lutimesSync(lock, tomorrow, tomorrow);
  assert.is(await isTaken(root, "b-2"), false);
  assert.ok(lstatSync(lock).mtimeMs <= Date.now());
  lutimesSync(lock, Date.now() / 1000 - 90, Date.now() / 1000 - 90);
  assert.is(await isTaken(root, "b-2", 60_000), true);
});

test.run();
