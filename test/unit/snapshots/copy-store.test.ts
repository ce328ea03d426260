import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type CopyOutcome, copyStore } from "../../../crds/snapshots/copy-store.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { KeptAs, SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { checkpoint, shown } from "./checkpoint-contract.ts";
import { call, everything, key, load, save, withoutMark } from "./store-contract.ts";
import { type ServedStore, serveStore } from "./store-server.ts";

const test = suite<{ folder: string; served: ServedStore[]; from: SnapshotStore; to: SnapshotStore }>("copyStore");

test.before.each(async (context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-copy-"));
  const roots = ["from", "to"].map((name) => join(context.folder, name));
  for (const root of roots) mkdirSync(root);
  context.served = await Promise.all(roots.map((root) => serveStore(root)));
  [context.from, context.to] = context.served.map(({ store }) => store) as [SnapshotStore, SnapshotStore];
});
test.after.each(async ({ folder, served }) => {
  await Promise.all(served.map(({ close }) => close()));
  rmSync(folder, { recursive: true, maxRetries: 20 });
});

const other = { tenantId: "other", workloadRef: "w" };
const at = (hour: number, keep: KeptAs = "replaced") => ({
  ...{ keep, most: { history: 3 } },
  createdAt: `2026-11-21T0${hour}:00:00.000Z`,
});

async function copy(
  stores: { from: SnapshotStore; to: SnapshotStore },
  deletes = false,
): Promise<Record<string, CopyOutcome>> {
  const outcomes: Record<string, CopyOutcome> = {};
  const onKey = ({ tenantId }: SnapshotKey, outcome: CopyOutcome): void => {
    outcomes[tenantId] = outcome;
  };
  await copyStore(stores, { ...call, deletes, onKey });
  return outcomes;
}

test("copies all archives with their versions and what is recorded, and nothing twice", async ({ from, to }) => {
  for (const hour of [1, 2, 3]) await save(from, `of ${hour}`, key, at(hour, hour === 2 ? "history" : "replaced"));
  await save(from, "of the other", other);
  assert.equal(await copy({ from, to }), {
    [key.tenantId]: { kind: "copied", archives: 3, bytes: 12 },
    other: { kind: "copied", archives: 1, bytes: 12 },
  });
  assert.equal(await everything(to, key), await everything(from, key));
  assert.equal(await copy({ from, to }), { [key.tenantId]: { kind: "present" }, other: { kind: "present" } });
  await save(from, "of 4", key, at(4));
  assert.equal((await copy({ from, to }))[key.tenantId], { kind: "copied", archives: 1, bytes: 4 });
  assert.equal(await everything(to, key), await everything(from, key));
});

/** A copy that is cut when it has put one archive. */
async function copyOneArchive({ from, to }: { from: SnapshotStore; to: SnapshotStore }): Promise<void> {
  let puts = 0;
  const failing: SnapshotStore = {
    ...to,
    put(...given) {
      puts += 1;
      if (puts === 2) throw new Error("the connection is cut");
      return to.put(...given);
    },
  };
  const error = await copy({ from, to: failing }).catch((caught: unknown) => caught);
  assert.match(String(error), /the connection is cut/);
}

test("deletes nothing where the source is taken away in the middle of a copy", async ({ from, to, folder }) => {
  await save(from, "of the other", other);
  await save(to, "of one that is erased");
  const onBegin = () => {
    rmSync(join(folder, "from"), { recursive: true });
    mkdirSync(join(folder, "from"));
  };
  const outcomes: CopyOutcome[] = [];
  await copyStore(
    { from, to },
    { ...call, deletes: true, onBegin, onKey: (_, outcome) => void outcomes.push(outcome) },
  );
  assert.equal(
    outcomes.map(({ kind }) => kind),
    ["failed"],
  );
  assert.is(await load(to), "of one that is erased");
});

test("goes on where it was ended", async ({ from, to }) => {
  for (const hour of [1, 2, 3]) await save(from, `of ${hour}`, key, at(hour));
  await copyOneArchive({ from, to });
  assert.is(await load(to), "of 1");
  assert.equal((await copy({ from, to }))[key.tenantId], { kind: "copied", archives: 2, bytes: 8 });
  assert.equal(await everything(to, key), await everything(from, key));
});

test("goes on where the source has gone back to what was copied as a version", async ({ from, to }) => {
  await save(from, "of 0", key, at(0));
  await copy({ from, to });
  const most = { history: 1, replaced: 3 };
  const first = await save(from, "of 1", key, { createdAt: at(1).createdAt });
  await save(from, "of 2", key, { ...at(2), keep: "history", most });
  const { revision: replaces } = await from.look(key, call);
  const back = { ...call, replaces, most, keep: "replaced", createdAt: at(3).createdAt } as const;
  await from.adopt(key, { ...key, sha256: first.metadata.sha256 }, back);
  await copyOneArchive({ from, to });
  assert.is(await load(to), "of 1");
  assert.equal((await copy({ from, to }))[key.tenantId], { kind: "copied", archives: 2, bytes: 8 });
  const [source, target] = await Promise.all([from, to].map((store) => store.look(key, call)));
  assert.equal(withoutMark(target?.newest), withoutMark(source?.newest));
  const contents = (target?.versions ?? []).map(async ({ sha256, kept }) => [await load(to, key, sha256), kept]);
  assert.equal(await Promise.all(contents), [
    ["of 2", "replaced"],
    ["of 1", "history"],
    ["of 0", "replaced"],
  ]);
  assert.equal((await copy({ from, to }))[key.tenantId], { kind: "present" });
});

test("leaves what has changed in the target, and says so", async ({ from, to }) => {
  await save(from, "of the source", key, at(1));
  await save(to, "of a later session", key, at(2));
  assert.equal(await copy({ from, to }), { [key.tenantId]: { kind: "differs" } });
  assert.is(await load(to), "of a later session");
});

const aheadAt9 = { createdAt: at(9).createdAt };
const at2 = { createdAt: at(2).createdAt };

test("never puts an older archive over what the target went on to, though a clock was ahead", async ({ from, to }) => {
  await save(from, "of the source, by a fast clock", key, aheadAt9);
  await copy({ from, to });
  await save(to, "of a later session", key, at2);
  assert.equal(await copy({ from, to }), { [key.tenantId]: { kind: "differs" } });
  // And the way back, from where it was in use last.
  assert.is((await copy({ from: to, to: from }))[key.tenantId]?.kind, "copied");
  assert.is(await load(from), "of a later session");
  // Both go on: neither may replace the other, in whatever order their clocks put them.
  await save(from, "of the one", key, { createdAt: at(3).createdAt });
  await save(to, "of the other", key, { createdAt: at(4).createdAt });
  for (const stores of [
    { from, to },
    { from: to, to: from },
  ]) {
    assert.equal(await copy(stores), { [key.tenantId]: { kind: "differs" } });
  }
});

test("a copy that is not in use follows its source, though the source's clock was ahead", async ({ from, to }) => {
  await save(from, "by a fast clock", key, aheadAt9);
  await copy({ from, to });
  await save(from, "by the right clock", key, at2);
  assert.is((await copy({ from, to }))[key.tenantId]?.kind, "copied");
  assert.is(await load(to), "by the right clock");
  await from.delete(key, call);
  await save(from, "begun again after an erasure", key, { createdAt: at(1).createdAt });
  assert.is((await copy({ from, to }))[key.tenantId]?.kind, "copied");
  assert.is(await load(to), "begun again after an erasure");
});

test("brings what was saved since, and keeps what the source has not kept", async ({ from, to }) => {
  await save(from, "of 1", key, at(1));
  await copy({ from, to });
  await save(from, "of 2", key, { createdAt: "2026-11-21T02:00:00.000Z" });
  assert.equal((await copy({ from, to }))[key.tenantId], { kind: "copied", archives: 1, bytes: 4 });
  const { newest, versions } = await to.look(key, call);
  assert.is(await load(to), "of 2");
  assert.equal(await Promise.all(versions.map(async ({ sha256, kept }) => [await load(to, key, sha256), kept])), [
    ["of 1", "replaced"],
  ]);
  assert.equal(await copy({ from, to }), { [key.tenantId]: { kind: "present" } });
  assert.equal(withoutMark(newest), withoutMark((await from.look(key, call)).newest));
});

test("an archive that is newest and version at once is both in the copy, also when that was ended", async (context) => {
  const { from, to } = context;
  const first = await save(from, "of 1", key, at(1));
  await save(from, "of 2", key, at(2));
  const { revision: replaces } = await from.look(key, call);
  const most = { history: 3, replaced: 3 };
  const adopted = { ...call, ...{ replaces, most, keep: "replaced" as const, createdAt: "2026-11-21T03:00:00.000Z" } };
  await from.adopt(key, { ...key, sha256: first.metadata.sha256 }, adopted);
  await copyOneArchive({ from, to });
  assert.is((await copy({ from, to }))[key.tenantId]?.kind, "copied");
  assert.equal(await everything(to, key), await everything(from, key));
});

test("says what the target alone has, and deletes it where it is told to", async ({ from, to }) => {
  await save(from, "of a", key, at(1));
  await save(from, "of the other", other);
  await copy({ from, to });
  await from.delete(other, call);
  assert.equal(await copy({ from, to }), { [key.tenantId]: { kind: "present" }, other: { kind: "surplus" } });
  assert.is(await load(to, other), "of the other");
  assert.equal((await copy({ from, to }, true)).other, { kind: "deleted" });
  assert.equal([await load(to, other), await load(to)], [undefined, "of a"]);
  await from.delete(key, call);
  assert.match(String(await copy({ from, to }, true).catch((error: unknown) => error)), /the source is empty/);
  assert.is(await load(to), "of a");
});

test("deletes nothing where the target was used since", async ({ from, to }) => {
  const bob = { tenantId: "bob", workloadRef: "w" };
  await save(from, "of a", key, at(1));
  await save(from, "of the other", other, at(1));
  await copy({ from, to });
  await save(to, "of a, since the move", key, at(2));
  await save(to, "of bob, who came since", bob, at(2));
  await from.delete(other, call);
  assert.equal(await copy({ from, to }, true), {
    ...{ [key.tenantId]: { kind: "differs" } },
    ...{ bob: { kind: "withheld" }, other: { kind: "withheld" } },
  });
  assert.equal([await load(to, bob), await load(to, other)], ["of bob, who came since", "of the other"]);
});

test("passes over an archive of which nothing is recorded, and copies none that has changed", async ({
  folder,
  from,
  to,
}) => {
  await save(from, "as it was saved");
  await save(from, "of the other", other);
  writeFileSync(join(folder, "from", "a.b", "c.tar.gz.tar.gz"), "as it was SAVED");
  const { [key.tenantId]: changed, other: sound } = await copy({ from, to });
  assert.ok(changed?.kind === "failed" && /its SHA-256 is not the one/.test(changed.because), JSON.stringify(changed));
  assert.is(sound?.kind, "copied");
  assert.is((await to.look(key, call)).newest, undefined);
  writeFileSync(join(folder, "from", "a.b", "c.tar.gz.tar.gz"), "cut");
  const { [key.tenantId]: cut } = await copy({ from, to });
  assert.ok(cut?.kind === "failed" && /does not match its metadata/.test(cut.because), JSON.stringify(cut));
});

test("checkpoints are not copied, and those of the target neither differ nor go", async ({ from, to }) => {
  await save(from, "of 1", key, at(1));
  await save(from, "of 2", key, at(2));
  await checkpoint(from, "running", { session: "a" });
  await checkpoint(from, "only a checkpoint", { session: "a", to: other });
  await checkpoint(to, "of the target", { session: "b" });
  assert.equal(await copy({ from, to }), { [key.tenantId]: { kind: "copied", archives: 2, bytes: 8 } });
  assert.equal(await shown(to), ["of 2", "of 1", "of the target (b)"]);
  assert.equal(await copy({ from, to }), { [key.tenantId]: { kind: "present" } });
  await checkpoint(to, "of the target again", { session: "b" });
  assert.equal(await copy({ from, to }), { [key.tenantId]: { kind: "present" } });
  for (const hour of [3, 4]) await save(from, `of ${hour}`, key, at(hour));
  assert.equal(await copy({ from, to }), { [key.tenantId]: { kind: "copied", archives: 2, bytes: 8 } });
  assert.equal(
    (await shown(to)).filter((one) => !one.endsWith(")")),
    ["of 4", "of 3", "of 2", "of 1"],
  );
  assert.ok((await shown(to)).includes("of the target again (b)"));
  assert.equal(await shown(to, other), ["-"]);
});

test("copies names, and checkpoints that have one", async ({ from, to }) => {
  await save(from, "of 1", key, at(1));
  await save(from, "of 2", key, at(2));
  for (const content of ["step 1", "step 2"]) {
    const { metadata } = await checkpoint(from, content, { session: "a" });
    if (content === "step 1") await from.setName(key, { sha256: metadata.sha256, name: "before" }, call);
  }
  const { versions } = await from.look(key, call);
  await from.setName(key, { sha256: versions.at(-1)?.sha256 ?? "", name: "v1" }, call);
  const { metadata } = await checkpoint(from, "alone", { session: "b", to: other });
  await from.setName(other, { sha256: metadata.sha256, name: "only" }, call);
  await checkpoint(from, "later", { session: "b", to: other });
  assert.equal(await copy({ from, to }), {
    [key.tenantId]: { kind: "copied", archives: 3, bytes: 14 },
    other: { kind: "copied", archives: 1, bytes: 5 },
  });
  assert.equal(
    [await shown(to), await shown(to, other)],
    [
      ["of 2", "step 1", "of 1"],
      ["-", "alone (b)"],
    ],
  );
  const names = async (of: SnapshotKey) => (await to.look(of, call)).versions.map((one) => one.names);
  assert.equal([await names(key), await names(other)], [[["before"], ["v1"]], [["only"]]]);
  assert.equal(await copy({ from, to }), { [key.tenantId]: { kind: "present" }, other: { kind: "present" } });
  // A name that was given to another archive since.
  const newest = (await from.look(key, call)).newest?.sha256 ?? "";
  await from.dropName(key, "before", call);
  await from.setName(key, { sha256: newest, name: "before" }, call);
  assert.is((await copy({ from, to }))[key.tenantId]?.kind, "present");
  assert.equal([(await to.look(key, call)).newest?.names, await names(key)], [["before"], [undefined, ["v1"]]]);
});

test("a key that has only a named checkpoint since its erasure is not deleted in the target", async ({ from, to }) => {
  await save(from, "of the other", other);
  await save(from, "erased");
  await copy({ from, to });
  await from.delete(key, call);
  const { metadata } = await checkpoint(from, "since", { session: "a" });
  await from.setName(key, { sha256: metadata.sha256, name: "mine" }, call);
  assert.is((await copy({ from, to }, true))[key.tenantId]?.kind, "withheld");
  assert.ok((await to.look(key, call)).versions.some(({ names }) => names?.join() === "mine"));
});

test.run();
