import { createHash } from "node:crypto";
import type { Test } from "uvu";
import * as assert from "uvu/assert";
import { isOfSession } from "../../../crds/snapshots/kept-versions.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import {
  type CommittedSnapshot,
  type KeptAs,
  type MostKept,
  QuotaError,
  type SnapshotStore,
  StoreConflict,
} from "../../../crds/snapshots/snapshot-store.ts";
import { errorOf } from "../../error-of.ts";
import { call, key, listAll, load, MOST, namesOf, pieces, save } from "./store-contract.ts";

const described = { uid: 1000, gid: 2000, entries: 1, contentBytes: 10, overlayDirs: ["/data"] };
const digest = (content: string): string => createHash("sha256").update(content).digest("hex");

interface SessionSave {
  readonly session: string;
  readonly to?: SnapshotKey;
  readonly replaces?: string | undefined;
  readonly keep?: KeptAs | undefined;
  readonly most?: Partial<MostKept>;
  readonly createdAt?: string;
  readonly sandbox?: string | undefined;
}

async function saveOf(
  store: SnapshotStore,
  content: string | AsyncIterable<Uint8Array>,
  { kind, session, to = key, replaces, keep, most, ...given }: SessionSave & { kind?: "checkpoint" },
): Promise<CommittedSnapshot> {
  const { createdAt = "2026-11-21T12:00:00.000Z", sandbox } = given;
  const state = replaces ?? (await store.look(to, call)).revision;
  const more = { ...(kind && { kind }), ...(sandbox !== undefined && { sandbox }) };
  const describe = () => ({ ...described, createdAt, session, ...more });
  const archive = typeof content === "string" ? pieces(content) : content;
  return await store.put(to, archive, { ...call, replaces: state, keep, most: { ...MOST, ...most }, describe });
}

/** Saves a checkpoint of a session. */
export async function checkpoint(
  store: SnapshotStore,
  content: string | AsyncIterable<Uint8Array>,
  options: SessionSave,
): Promise<CommittedSnapshot> {
  return await saveOf(store, content, { ...options, kind: "checkpoint" });
}

/** Saves a session that ends. */
export async function release(store: SnapshotStore, content: string, options: SessionSave): Promise<CommittedSnapshot> {
  return await saveOf(store, content, options);
}

/** The contents of a key's archives, the newest first ("-" if there is none), each with the session of a checkpoint. */
export async function shown(store: SnapshotStore, of: SnapshotKey = key): Promise<string[]> {
  const { newest, versions } = await store.look(of, call);
  const all = [newest, ...versions].map(async (one) => {
    if (one === undefined) return "-";
    const content = await load(store, of, one.sha256);
    return one.kind === undefined ? `${content}` : `${content} (${one.session})`;
  });
  return await Promise.all(all);
}

/** The contents of the archives that a session goes on from after the loss of a pod. */
export async function goesOnFrom(store: SnapshotStore, session: string): Promise<(string | undefined)[]> {
  const { newest, versions } = await store.look(key, call);
  const all = [newest, ...versions].filter((one) => one !== undefined);
  return await Promise.all(
    all.filter((one) => isOfSession(session, one)).map(({ sha256 }) => load(store, key, sha256)),
  );
}

/** Makes an older version with this content the newest archive. */
export async function rollBack(store: SnapshotStore, content: string, replaces?: string): Promise<void> {
  const state = replaces ?? (await store.look(key, call)).revision;
  const adopted = { ...call, replaces: state, keep: "replaced", most: MOST, createdAt: "2026-11-22T00:00:00.000Z" };
  const from = { ...key, sha256: digest(content) };
  assert.ok((await store.adopt(key, from, adopted as Parameters<SnapshotStore["adopt"]>[2])) !== undefined);
}

/** What every store promises about checkpoints. */
export function testCheckpoints<T extends { store: SnapshotStore }>(test: Test<T>): void {
  test("a checkpoint is the latest older version, and the newest archive stays", async ({ store }) => {
    await save(store, "of 1", key, { createdAt: "2026-11-21T14:00:00.000Z" });
    const { metadata: before } = await save(store, "of 2", key, { keep: "history", most: { history: 3 } });
    const { metadata, revision } = await checkpoint(store, "running", { session: "a" });
    const present = await store.look(key, call);
    assert.equal([present.state, present.newest, present.revision], ["kept", before, revision]);
    assert.equal(present.versions[0], { ...metadata, kept: "replaced" });
    assert.equal([metadata.kind, metadata.session, metadata.lineage], ["checkpoint", "a", undefined]);
    assert.equal(await shown(store), ["of 2", "running (a)", "of 1"]);
    const listed = await listAll(store, { versions: true });
    assert.equal(
      listed.map(({ version, kept, metadata }) => [version, kept, metadata?.kind]),
      [
        [undefined, undefined, undefined],
        [digest("running").slice(0, 16), "replaced", "checkpoint"],
        [digest("of 1").slice(0, 16), "history", undefined],
      ],
    );
  });

  test("a key that has only a checkpoint has no newest archive, but a use", async ({ store }) => {
    const other = { tenantId: "other", workloadRef: "w" };
    await save(store, "another", other);
    const { revision } = await checkpoint(store, "first", { session: "a" });
    const present = await store.look(key, call);
    assert.equal([present.state, present.newest, present.revision], ["none", undefined, revision]);
    assert.equal(await shown(store), ["-", "first (a)"]);
    assert.equal(await namesOf(store), [other]);
    assert.is((await listAll(store, { versions: false })).length, 1);
    assert.is((await listAll(store, { versions: true })).length, 2);
    const { items } = await store.uses({ limit: 10 }, call);
    assert.equal(
      items.map(({ tenantId }) => tenantId),
      [key.tenantId, "other"],
    );
    assert.ok(Math.abs(Date.parse(items[0]?.usedAt ?? "") - Date.now()) < 3_600_000);
    assert.is(await store.delete(key, { ...call, unusedForMs: 3_600_000 }), false);
    assert.is(await store.delete(key, { ...call, unusedForMs: 0 }), true);
    assert.equal([await shown(store), (await store.usage(call)).archives], [["-"], 1]);
    assert.is((await store.uses({ limit: 10 }, call)).items.length, 1);
  });

  test("the next checkpoint of a session replaces the earlier one, and no other version", async ({ store }) => {
    for (const hour of [1, 2, 3, 4]) await save(store, `of ${hour}`, key, { keep: "replaced" });
    await checkpoint(store, "lost", { session: "lost" });
    const most = { history: 0, replaced: 0 };
    for (const content of ["first", "second", "third"]) await checkpoint(store, content, { session: "a", most });
    assert.equal(await shown(store), ["of 4", "third (a)", "lost (lost)", "of 3", "of 2", "of 1"]);
    for (const content of ["first", "second"]) assert.is(await load(store, key, digest(content)), undefined);
    assert.is((await store.usage(call)).archives, 6);
  });

  test("a checkpoint conflicts with an erasure, a rollback and another save", async ({ store }) => {
    for (const content of ["of 1", "of 2"]) await save(store, content, key, { keep: "replaced" });
    const changes: (() => Promise<unknown>)[] = [
      () => rollBack(store, "of 1"),
      () => save(store, "of 3"),
      () => checkpoint(store, "other", { session: "b" }),
      () => store.dropCheckpoint(key, { ...call, session: "b" }),
      () => store.delete(key, call),
      () => checkpoint(store, "first", { session: "b" }),
      () => store.dropCheckpoint(key, { ...call, session: "b" }),
    ];
    for (const change of changes) {
      const { revision: replaces } = await store.look(key, call);
      await change();
      const before = await shown(store);
      assert.instance(await errorOf(checkpoint(store, "late", { session: "a", replaces })), StoreConflict);
      assert.equal(await shown(store), before);
    }
  });

  test("a state without archives does not come back after a checkpoint", async ({ store }) => {
    await save(store, "marks the store", { tenantId: "b", workloadRef: "w" });
    const { revision: replaces } = await store.look(key, call);
    await checkpoint(store, "running", { session: "a" });
    await store.dropCheckpoint(key, { ...call, session: "a" });
    assert.instance(await errorOf(checkpoint(store, "late", { session: "a", replaces })), StoreConflict);
    assert.equal(await shown(store), ["-"]);
  });

  test("an erasure and a rollback that have not seen a checkpoint conflict with it", async ({ store }) => {
    for (const content of ["of 1", "of 2"]) await save(store, content, key, { keep: "replaced" });
    const { revision: replaces } = await store.look(key, call);
    await checkpoint(store, "running", { session: "a" });
    assert.instance(await errorOf(store.delete(key, { ...call, replaces })), StoreConflict);
    assert.instance(await errorOf(rollBack(store, "of 1", replaces)), StoreConflict);
    assert.equal(await shown(store), ["of 2", "running (a)", "of 1"]);
  });

  test("of a checkpoint and an erasure, or a rollback, at once one wins", async ({ store }) => {
    for (const [index, act] of ["erasure", "rollback", "erasure", "rollback"].entries()) {
      for (const content of ["of 1", "of 2"]) await save(store, content, key, { keep: "replaced" });
      const { revision: replaces } = await store.look(key, call);
      const content = `running ${index}`;
      const results = await Promise.all([
        errorOf(checkpoint(store, content, { session: "a", replaces })),
        errorOf(act === "erasure" ? store.delete(key, { ...call, replaces }) : rollBack(store, "of 1", replaces)),
      ]);
      const failed = results.filter((error) => error !== undefined);
      assert.is(failed.length, 1, String(results));
      assert.instance(failed[0], StoreConflict);
      const found = await shown(store);
      if (results[0] === undefined) assert.equal(found, ["of 2", `${content} (a)`, "of 1"]);
      else if (act === "erasure") assert.equal(found, ["-"]);
      else assert.equal(found.slice(0, 2), ["of 1", "of 2"]);
      await store.delete(key, call);
    }
  });

  test("a checkpoint that fails leaves what was there", async ({ store }) => {
    await save(store, "of 1");
    await checkpoint(store, "before", { session: "a" });
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from("the beginning");
      throw new Error("the pod is gone");
    }
    assert.match(String(await errorOf(checkpoint(store, broken(), { session: "a" }))), /the pod is gone/);
    assert.equal(await shown(store), ["of 1", "before (a)"]);
    const { revision: replaces } = await store.look(key, call);
    const describe = () => ({ ...described, createdAt: "2026-11-21T12:00:00.000Z", kind: "checkpoint" }) as const;
    const nameless = store.put(key, pieces("x"), { ...call, replaces, most: MOST, describe });
    assert.match(String(await errorOf(nameless)), /does not name its session/);
    assert.equal([await shown(store), (await store.usage(call)).archives], [["of 1", "before (a)"], 2]);
  });

  test("a release deletes the checkpoint of its session, and keeps those of other sessions", async ({ store }) => {
    await save(store, "of 1");
    await checkpoint(store, "lost", { session: "lost" });
    await checkpoint(store, "running", { session: "a" });
    const { metadata } = await release(store, "of 2", { session: "a", keep: "history", most: { history: 1 } });
    assert.equal([metadata.kind, metadata.session, metadata.lineage?.[0]?.saves], [undefined, "a", 2]);
    assert.equal(await shown(store), ["of 2", "of 1", "lost (lost)"]);
    assert.is((await store.usage(call)).archives, 3);
    await checkpoint(store, "next", { session: "b" });
    await save(store, "of 3", key, { keep: "replaced" });
    assert.equal(await shown(store), ["of 3", "of 2", "next (b)", "lost (lost)"]);
    assert.is(await store.dropCheckpoint(key, { ...call, session: "lost" }), true);
    assert.equal(await shown(store), ["of 3", "of 2", "next (b)"]);
  });

  test("of other sessions the newest three checkpoints are kept, and take no place of other versions", async ({
    store,
  }) => {
    for (const session of ["a", "b", "c"]) await checkpoint(store, `of ${session}`, { session });
    await save(store, "of 1");
    assert.equal(await shown(store), ["of 1", "of c (c)", "of b (b)", "of a (a)"]);
    await save(store, "of 2", key, { keep: "replaced", most: { replaced: 3 } });
    assert.equal(await shown(store), ["of 2", "of 1", "of c (c)", "of b (b)", "of a (a)"]);
    await release(store, "of 3", { session: "c", most: { replaced: 1 } });
    assert.equal(await shown(store), ["of 3", "of 1", "of b (b)", "of a (a)"]);
    for (const session of ["d", "e", "f"]) await checkpoint(store, `of ${session}`, { session });
    const [newest, ...older] = await shown(store);
    assert.equal([newest, older.sort()], ["of 3", ["of 1", "of b (b)", "of d (d)", "of e (e)", "of f (f)"]]);
    assert.is((await store.usage(call)).archives, 6);
  });

  test("a release with the bytes of its own checkpoint is whole", async ({ store }) => {
    await checkpoint(store, "same", { session: "a" });
    await release(store, "same", { session: "a" });
    assert.equal(
      [await shown(store), await store.usage(call)],
      [["same"], { archives: 1, bytes: 4, workloads: { [key.workloadRef]: { archives: 1, bytes: 4 } } }],
    );
  });

  test("a checkpoint of bytes that another save has stored is that save, and what its session goes on from", async ({
    store,
  }) => {
    await save(store, "of 1");
    const { metadata: newest } = await save(store, "of 2", key, { keep: "history", most: { history: 3 } });
    for (const content of ["running", "of 1", "of 2", "running", "of 2"]) {
      const { metadata, revision } = await checkpoint(store, content, { session: "a" });
      assert.is(metadata.sha256, digest(content));
      assert.is((await store.look(key, call)).revision, revision);
      assert.equal(await goesOnFrom(store, "a"), [content]);
    }
    const isMarked = { ...newest, checkpointOf: ["a"] };
    const { newest: present, versions } = await store.look(key, call);
    assert.equal(present, isMarked);
    assert.equal(
      versions.map(({ sha256, kept }) => [sha256, kept]),
      [[digest("of 1"), "history"]],
    );
    assert.is(await store.dropCheckpoint(key, { ...call, session: "a" }), false);
    assert.equal([(await store.look(key, call)).newest, (await store.usage(call)).bytes], [newest, 8]);
    await checkpoint(store, "of 2", { session: "a" });
    await release(store, "of 3", { session: "a", keep: "replaced", most: { history: 3 } });
    assert.equal([await goesOnFrom(store, "a"), await shown(store)], [[], ["of 3", "of 2", "of 1"]]);
  });

  test("a checkpoint of the same bytes once more is one archive, with the later time", async ({ store }) => {
    await save(store, "of 1");
    for (const hour of [13, 14]) {
      await checkpoint(store, "running", { session: "a", createdAt: `2026-11-21T${hour}:00:00.000Z` });
    }
    const { versions } = await store.look(key, call);
    assert.equal(
      versions.map(({ createdAt }) => createdAt),
      ["2026-11-21T14:00:00.000Z"],
    );
    assert.equal([await shown(store), (await store.usage(call)).bytes], [["of 1", "running (a)"], 11]);
  });

  test("bytes that two sessions have saved as checkpoints are deleted by neither", async ({ store }) => {
    for (const session of ["a", "b"]) await checkpoint(store, "same", { session });
    assert.equal(await shown(store), ["-", "same"]);
    for (const session of ["a", "b"]) assert.is(await store.dropCheckpoint(key, { ...call, session }), false);
    await release(store, "of 1", { session: "b" });
    assert.equal(await shown(store), ["of 1", "same"]);
    await store.delete(key, call);
    assert.is((await store.usage(call)).archives, 0);
  });

  test("a session drops its checkpoint alone, and a key without archives leaves nothing", async ({ store }) => {
    assert.is(await store.dropCheckpoint(key, { ...call, session: "a" }), false);
    for (const session of ["a", "b"]) await checkpoint(store, `of ${session}`, { session });
    assert.is(await store.dropCheckpoint(key, { ...call, session: "c" }), false);
    assert.is(await store.dropCheckpoint(key, { ...call, session: "a" }), true);
    assert.is(await store.dropCheckpoint(key, { ...call, session: "a" }), false);
    assert.equal(await shown(store), ["-", "of b (b)"]);
    assert.equal(await store.usage(call), {
      ...{ archives: 1, bytes: 4, workloads: { [key.workloadRef]: { archives: 1, bytes: 4 } } },
    });
    assert.is(await store.dropCheckpoint(key, { ...call, session: "b" }), true);
    assert.equal(await store.usage(call), { archives: 0, bytes: 0, workloads: {} });
    assert.equal(await listAll(store, { versions: true }), []);
    assert.equal((await store.uses({ limit: 10 }, call)).items, []);
    assert.is(await store.delete(key, call), false);
  });

  test("a rollback to a checkpoint makes it the newest, as an ordinary archive", async ({ store }) => {
    await save(store, "of 1");
    await checkpoint(store, "running", { session: "a" });
    await rollBack(store, "running");
    const { newest } = await store.look(key, call);
    assert.equal([newest?.sha256, newest?.kind, newest?.session], [digest("running"), undefined, undefined]);
    // The older version with the same content belongs to its session still.
    await store.dropCheckpoint(key, { ...call, session: "a" });
    assert.equal(await shown(store), ["running", "of 1"]);
    await save(store, "of 2", key, { keep: "replaced" });
    assert.equal(await shown(store), ["of 2", "running", "of 1"]);
  });

  test("a copy of a checkpoint is an ordinary archive of its own", async ({ store }) => {
    await checkpoint(store, "running", { session: "a" });
    const other = { tenantId: "other", workloadRef: "w" };
    const { revision: replaces } = await store.look(other, call);
    const adopted = { ...call, replaces, most: MOST, createdAt: "2026-11-22T00:00:00.000Z", sandbox: "of the copy" };
    const copied = await store.adopt(other, { ...key, sha256: digest("running") }, adopted);
    assert.equal([copied?.metadata.kind, copied?.metadata.session], [undefined, undefined]);
    assert.is((await store.look(other, call)).newest?.sandbox, "of the copy");
    await store.delete(key, call);
    assert.equal(await shown(store, other), ["running"]);
  });

  test("a checkpoint stays within the quotas, and pushes out no history", async ({ store }) => {
    const most = { history: 3, tenantBytes: 3000, workloadBytes: 3000 };
    await save(store, "1".repeat(1000), key, { most });
    await save(store, "2".repeat(1000), key, { keep: "history", most });
    for (const fill of ["a", "b"]) {
      // The earlier one of its session does not count beside it.
      await checkpoint(store, fill.repeat(1000), { session: "a", most });
    }
    for (const limit of [{ tenantBytes: 3000 }, { workloadBytes: 3000 }]) {
      const large = checkpoint(store, "c".repeat(1001), { session: "a", most: { history: 3, ...limit } });
      assert.instance(await errorOf(large), QuotaError);
      const second = checkpoint(store, "d", { session: "b", most: { history: 3, ...limit } });
      assert.instance(await errorOf(second), QuotaError);
    }
    assert.equal(
      (await shown(store)).map((content) => `${content[0]}${content.slice(1000)}`),
      ["2", "b (a)", "1"],
    );
    assert.is((await store.usage(call)).bytes, 3000);
    const room = { ...call, sizeBytes: 1000, keep: "replaced", most: { ...MOST, ...most } } as const;
    await store.checkRoom(key, { ...room, session: "a" });
    await release(store, "e".repeat(1000), { session: "a", keep: "replaced", most });
    assert.is((await store.usage(call)).bytes, 3000);
  });

  test("deleting a key deletes its checkpoints, and tidying deletes none", async ({ store }) => {
    await save(store, "of 1");
    await checkpoint(store, "running", { session: "a" });
    await checkpoint(store, "alone", { session: "a", to: { ...key, workloadRef: "alone" } });
    await store.tidy(call);
    assert.equal(await shown(store), ["of 1", "running (a)"]);
    assert.equal(await shown(store, { ...key, workloadRef: "alone" }), ["-", "alone (a)"]);
    assert.is(await store.delete(key, call), true);
    assert.equal(await shown(store), ["-"]);
    assert.is((await store.usage(call)).archives, 1);
  });
}
