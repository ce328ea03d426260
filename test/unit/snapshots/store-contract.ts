import { createHash, randomBytes } from "node:crypto";
import type { Test } from "uvu";
import * as assert from "uvu/assert";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import {
  type ByteRange,
  type CommittedSnapshot,
  type KeptAs,
  type MostKept,
  QuotaError,
  type SnapshotStore,
  StoreConflict,
  type StoreEntry,
} from "../../../crds/snapshots/snapshot-store.ts";
import { eachInPages, type PageFilter, type StorePage } from "../../../crds/snapshots/store-pages.ts";
import { errorOf } from "../../error-of.ts";

export const call = { signal: new AbortController().signal, timeoutMs: 60_000 };
/** What stays where nothing is configured. */
export const MOST: MostKept = { history: 0, replaced: 3 };
export const key: SnapshotKey = { tenantId: "a.b", workloadRef: "c.tar.gz" };
const described = { uid: 1000, gid: 2000, entries: 1, contentBytes: 10, overlayDirs: ["/data"] };

export async function* pieces(content: string | Buffer): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(content);
  yield bytes.subarray(0, 3);
  yield bytes.subarray(3);
}

interface SaveOptions {
  readonly replaces?: string | undefined;
  readonly keep?: KeptAs | undefined;
  readonly most?: Partial<MostKept>;
  readonly createdAt?: string;
  readonly sandbox?: string | undefined;
}

/** Saves in the place of what is there, or of the state that is given. */
export async function save(
  store: SnapshotStore,
  content: string | Buffer | AsyncIterable<Uint8Array>,
  to: SnapshotKey = key,
  { replaces, keep, createdAt = "2026-11-21T12:00:00.000Z", most, sandbox }: SaveOptions = {},
): Promise<CommittedSnapshot> {
  const state = replaces ?? (await store.look(to, call)).revision;
  const archive = typeof content === "string" || Buffer.isBuffer(content) ? pieces(content) : content;
  const describe = () => ({ ...described, createdAt, ...(sandbox !== undefined && { sandbox }) });
  return await store.put(to, archive, { ...call, replaces: state, keep, most: { ...MOST, ...most }, describe });
}

/** The content of the newest archive or of a version, or a part of it. */
export async function load(...archive: Parameters<typeof loadBytes>): Promise<string | undefined> {
  return (await loadBytes(...archive))?.toString("utf8");
}

export async function loadBytes(
  store: SnapshotStore,
  from: SnapshotKey = key,
  sha256?: string,
  range?: ByteRange,
): Promise<Buffer | undefined> {
  const wanted = sha256 ?? (await store.look(from, call)).newest?.sha256;
  const opened = wanted === undefined ? undefined : await store.open(from, wanted, { ...call, range });
  if (opened === undefined) return undefined;
  const parts: Uint8Array[] = [];
  for await (const part of opened.content) parts.push(part);
  return Buffer.concat(parts);
}

/** All archives of a key, with what is recorded of them in their source. */
export async function everything(store: SnapshotStore, of: SnapshotKey): Promise<unknown> {
  const { newest, versions } = await store.look(of, call);
  const contents = [newest, ...versions].map((one) => load(store, of, one?.sha256));
  return { archives: [newest, ...versions].map(withoutMark), contents: await Promise.all(contents) };
}

/** Without what marks a copy. */
export function withoutMark(metadata: SnapshotMetadata | undefined) {
  const { copied: _, ...saved } = metadata ?? {};
  return saved;
}

/** All pages of a list. */
export async function listAll(
  store: SnapshotStore,
  filter: Omit<PageFilter, "after" | "limit"> & { readonly versions: boolean },
): Promise<StoreEntry[]> {
  const entries: StoreEntry[] = [];
  const pages = eachInPages((page) => store.list({ ...filter, ...page }, call));
  for await (const entry of pages) entries.push(entry);
  return entries;
}

/** All keys that a store names. */
export async function namesOf(store: SnapshotStore): Promise<SnapshotKey[]> {
  const names: SnapshotKey[] = [];
  for await (const name of eachInPages((page) => store.names(page, call))) names.push(name);
  return names;
}

const digest = (content: string): string => createHash("sha256").update(content).digest("hex");

/** What every store keeps to, whatever it keeps archives in. */
export function testStore<T extends { store: SnapshotStore }>(test: Test<T>): void {
  test("a part of an archive is read alone, and one that it does not have is an error", async ({ store }) => {
    const { metadata: older } = await save(store, "the older one");
    await save(store, "the newest", key, { keep: "history", most: { history: 1 } });
    const part = async (from: number, to: number, sha256?: string) => await load(store, key, sha256, { from, to });
    assert.equal([await part(0, 1), await part(4, 10), await part(0, 10)], ["t", "newest", "the newest"]);
    assert.is(await part(4, 9, older.sha256), "older");
    assert.is(await part(0, 1, digest("nothing")), undefined);
    assert.instance(await errorOf(part(4, 11)), Error);
    assert.instance(await errorOf(part(20, 21)), Error);
    const opened = await store.open(key, older.sha256, { ...call, range: { from: 0, to: 1 } });
    assert.is(opened?.metadata.sizeBytes, older.sizeBytes);
    opened?.close();
  });

  test("counts the saves of a key, also a rollback, and begins another part after a copy", async ({ store }) => {
    const savesOf = async () => (await store.look(key, call)).newest?.lineage?.map(({ saves }) => saves);
    const first = await save(store, "the first");
    await save(store, "the second one", key, { keep: "history", most: { history: 3 } });
    assert.equal(await savesOf(), [2]);
    const replaces = async () => ({ ...call, replaces: (await store.look(key, call)).revision });
    const adopted = { most: MOST, createdAt: "2026-11-21T13:00:00.000Z" };
    await store.adopt(key, { ...key, sha256: first.metadata.sha256 }, { ...(await replaces()), ...adopted });
    assert.equal(await savesOf(), [3]);
    const lineage = [{ id: "elsewhere", saves: 7 }];
    const describe = () => ({ ...described, createdAt: adopted.createdAt, lineage, copied: true }) as const;
    await store.put(key, pieces("a copy"), { ...(await replaces()), most: MOST, describe });
    assert.equal((await store.look(key, call)).newest?.lineage, lineage);
    await save(store, "since the copy");
    const { newest } = await store.look(key, call);
    assert.equal([newest?.lineage?.[0], newest?.lineage?.[1]?.saves, newest?.copied], [lineage[0], 1, undefined]);
  });

  test("keeps an archive and what is recorded of it, and replaces both", async ({ store }) => {
    assert.is((await store.look(key, call)).newest, undefined);
    assert.equal(await listAll(store, { versions: true }), []);
    const first = await save(store, "the first");
    assert.equal([first.metadata.sha256, first.metadata.sizeBytes], [digest("the first"), 9]);
    assert.equal([first.metadata.tenantId, first.metadata.workloadRef], [key.tenantId, key.workloadRef]);
    assert.equal([first.metadata.uid, first.metadata.gid, first.metadata.overlayDirs], [1000, 2000, ["/data"]]);
    assert.is(await load(store), "the first");
    const second = await save(store, "the second one");
    assert.is(await load(store), "the second one");
    const { state, newest, versions, revision } = await store.look(key, call);
    assert.equal([state, newest, versions, revision], ["kept", second.metadata, [], second.revision]);
    const [{ usedAt, ...entry } = { usedAt: "" }, ...others] = await listAll(store, { versions: true });
    assert.equal([entry, others], [{ ...key, sizeBytes: 14, metadata: second.metadata }, []]);
    assert.ok(Math.abs(Date.parse(usedAt) - Date.now()) < 3_600_000);
    assert.is(await store.open(key, first.metadata.sha256, call), undefined);
  });

  test("keeps an empty archive, and one of many pieces", async ({ store }) => {
    await save(store, "");
    assert.is(await load(store), "");
    const large = randomBytes(3_000_001).toString("latin1");
    await save(store, large);
    assert.is(await load(store), large);
  });

  test("an archive that is opened and not read can be given up", async ({ store }) => {
    const large = randomBytes(3_000_000);
    const { metadata } = await save(store, large);
    for (const isBegun of [false, true]) {
      const opened = await store.open(key, metadata.sha256, call);
      const reading = opened?.content[Symbol.asyncIterator]();
      if (isBegun) await reading?.next();
      opened?.close();
      // What was on its way may still come; the archive does not.
      const error = await errorOf(
        (async () => {
          for (;;) if ((await reading?.next())?.done === true) return;
        })(),
      );
      assert.ok(error !== undefined);
    }
    assert.is(await load(store), large.toString("utf8"));
  });

  test("a state that was left does not come back", async ({ store }) => {
    const nothing = (await store.look(key, call)).revision;
    const first = await save(store, "one");
    const same = await save(store, "one");
    assert.is.not(first.revision, same.revision);
    await save(store, "two", key, { keep: "replaced" });
    const back = await store.adopt(
      key,
      { ...key, sha256: digest("one") },
      {
        ...call,
        ...{
          replaces: (await store.look(key, call)).revision,
          keep: "replaced",
          most: MOST,
          createdAt: "2026-11-22T00:00:00.000Z",
        },
      },
    );
    assert.is(await load(store), "one");
    assert.ok(back !== undefined && ![first.revision, same.revision].includes(back.revision));
    assert.is(await store.delete(key, call), true);
    const after = (await store.look(key, call)).revision;
    assert.is.not(after, nothing);
    for (const replaces of [nothing, first.revision, same.revision, back.revision]) {
      assert.instance(await errorOf(save(store, "late", key, { replaces })), StoreConflict);
    }
    assert.is(await load(store), undefined);
  });

  test("of saves that replace the same state one wins, and the others leave nothing", async ({ store }) => {
    for (const before of [undefined, "before"]) {
      if (before !== undefined) await save(store, before);
      const { revision: replaces } = await store.look(key, call);
      const contents = Array.from({ length: 8 }, (_, index) => `of ${index}, after ${before}`);
      const results = await Promise.all(contents.map((content) => errorOf(save(store, content, key, { replaces }))));
      const won = contents.filter((_, index) => results[index] === undefined);
      assert.is(won.length, 1, String(results));
      for (const error of results) if (error !== undefined) assert.instance(error, StoreConflict);
      assert.is(await load(store), won[0]);
    }
  });

  test("a failure of the archive, or of what describes it, leaves what is there", async ({ store }) => {
    await save(store, "before");
    const { revision } = await store.look(key, call);
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from("the beginning");
      throw new Error("the pod is gone");
    }
    assert.match(String(await errorOf(save(store, broken()))), /the pod is gone/);
    const fenced = store.put(key, pieces("late"), {
      ...{ ...call, replaces: revision, most: MOST },
      describe() {
        throw new Error("another operator may be at work");
      },
    });
    assert.match(String(await errorOf(fenced)), /another operator may be at work/);
    assert.equal([await load(store), (await store.look(key, call)).revision], ["before", revision]);
  });

  test("an abort ends a save at once, with its own reason", async ({ store }) => {
    const stop = new AbortController();
    async function* endless(): AsyncGenerator<Uint8Array> {
      for (let index = 0; ; index += 1) {
        if (index === 3) stop.abort(new Error("no longer wanted"));
        yield Buffer.alloc(1024);
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    const { revision: replaces } = await store.look(key, call);
    const saving = store.put(key, endless(), {
      ...{ signal: stop.signal, timeoutMs: 60_000, replaces, most: MOST },
      describe: () => ({ ...described, createdAt: "2026-11-21T12:00:00.000Z" }),
    });
    assert.match(String(await errorOf(saving)), /no longer wanted/);
    assert.is((await store.look(key, call)).newest, undefined);
  });

  test("what a save keeps is an older version, and the newest of them stay", async ({ store }) => {
    for (let hour = 0; hour < 6; hour += 1) {
      await save(store, `of ${hour}`, key, {
        keep: hour === 5 ? undefined : "replaced",
        createdAt: `2026-11-21T0${hour}:00:00.000Z`,
      });
    }
    const { newest, versions } = await store.look(key, call);
    assert.is(newest?.sha256, digest("of 5"));
    assert.equal(
      versions.map(({ sha256 }) => sha256),
      ["of 3", "of 2", "of 1"].map(digest),
    );
    for (const each of ["of 3", "of 2", "of 1", "of 5"]) assert.is(await load(store, key, digest(each)), each);
    for (const each of ["of 4", "of 0"]) assert.is(await load(store, key, digest(each)), undefined);
    const listed = await listAll(store, { versions: true });
    assert.equal(
      listed.map(({ version }) => version).sort(),
      ["of 3", "of 2", "of 1"]
        .map((each) => digest(each).slice(0, 16))
        .concat([undefined as never])
        .sort(),
    );
    assert.is((await listAll(store, { versions: false })).length, 1);
    await save(store, "of 6", key, { keep: "replaced", most: { replaced: 1 }, createdAt: "2026-11-21T06:00:00.000Z" });
    assert.equal(
      (await store.look(key, call)).versions.map(({ sha256 }) => sha256),
      [digest("of 5")],
    );
  });

  test("the versions that were kept last stay, also after a clock that was a day ahead", async ({ store }) => {
    const days = ["22", "22", "22", "22", "21", "21", "21", "21"];
    const contents = days.map((_, hour) => `of ${hour}`);
    for (const [hour, day] of days.entries()) {
      const createdAt = `2026-11-${day}T0${hour}:00:00.000Z`;
      await save(store, contents[hour] ?? "", key, { keep: "replaced", createdAt });
      const { versions } = await store.look(key, call);
      const kept = contents.slice(Math.max(0, hour - 3), hour).reverse();
      assert.equal(
        versions.map(({ sha256 }) => sha256),
        kept.map(digest),
        `after ${hour + 1} saves`,
      );
    }
  });

  test("older versions of each kind stay by a number of their own, and what was replaced stays that", async ({
    store,
  }) => {
    const kinds = ["history", "replaced", "history", "history", undefined] as const;
    const contents = ["of 0", "of 1", "of 2", "of 3", "of 4", "of 5"];
    await save(store, "of 0", key, { createdAt: "2026-11-21T00:00:00.000Z" });
    for (const [index, keep] of kinds.entries()) {
      const createdAt = `2026-11-21T0${index + 1}:00:00.000Z`;
      await save(store, contents[index + 1] ?? "", key, { keep, most: { history: 2, replaced: 1 }, createdAt });
    }
    const kept = async () => (await store.look(key, call)).versions.map(({ sha256, kept }) => [sha256, kept]);
    assert.equal(await kept(), [
      [digest("of 3"), "history"],
      [digest("of 2"), "history"],
      [digest("of 1"), "replaced"],
    ]);
    const listed = (await listAll(store, { versions: true })).map(({ version, kept }) => `${version} ${kept}`);
    const named = (content: string, as: string) => `${digest(content).slice(0, 16)} ${as}`;
    const expected = [named("of 3", "history"), named("of 2", "history"), named("of 1", "replaced")];
    assert.equal(listed.sort(), [...expected, "undefined undefined"].sort());

    const { revision: replaces } = await store.look(key, call);
    const back = { ...key, sha256: digest("of 1") };
    await store.adopt(key, back, {
      ...call,
      ...{ replaces, keep: "replaced", most: { history: 2, replaced: 2 }, createdAt: "2026-11-22T00:00:00.000Z" },
    });
    await save(store, "of 6", key, { keep: "history", most: { history: 0, replaced: 2 } });
    assert.equal(
      (await kept()).map(String).sort(),
      [`${digest("of 1")},replaced`, `${digest("of 5")},replaced`].sort(),
    );
  });

  test("a rollback deletes no other version, and many of them add none", async ({ store }) => {
    const contents = ["of 0", "of 1", "of 2", "of 3"];
    for (const [hour, content] of contents.entries()) {
      await save(store, content, key, { keep: "replaced", createdAt: `2026-11-21T0${hour}:00:00.000Z` });
    }
    const kept = async () => {
      const { newest, versions } = await store.look(key, call);
      assert.ok(versions.length <= 4, String(versions.length));
      return [...new Set([newest, ...versions].map((one) => one?.sha256))].sort();
    };
    const all = contents.map(digest).sort();
    for (const [hour, index] of [2, 0, 3, 2, 1, 1, 0, 3, 0].entries()) {
      const back = { ...key, sha256: digest(contents[index] ?? "") };
      const { revision: replaces } = await store.look(key, call);
      const createdAt = `2026-11-22T0${hour}:00:00.000Z`;
      await store.adopt(key, back, { ...call, replaces, keep: "replaced", most: MOST, createdAt });
      assert.equal([await load(store), await kept()], [contents[index], all]);
    }
    // What was gone back to is one of the three from then on.
    await save(store, "of 4", key, { keep: "replaced", createdAt: "2026-11-23T00:00:00.000Z" });
    const { versions } = await store.look(key, call);
    assert.is(versions.length, 3);
    assert.ok(versions.some(({ sha256 }) => sha256 === digest("of 0")));
  });

  test("an archive that is newest and older version at once counts once, so a rollback is never too much", async ({
    store,
  }) => {
    for (const [hour, content] of ["a".repeat(1000), "b".repeat(1000)].entries()) {
      await save(store, content, key, { keep: "replaced", createdAt: `2026-11-21T0${hour}:00:00.000Z` });
    }
    const most = { ...MOST, tenantBytes: 2000, workloadBytes: 2000 };
    for (const [hour, content] of ["a", "b", "a"].entries()) {
      const back = { ...key, sha256: digest(content.repeat(1000)) };
      const { revision: replaces } = await store.look(key, call);
      const createdAt = `2026-11-22T0${hour}:00:00.000Z`;
      await store.adopt(key, back, { ...call, replaces, keep: "replaced", most, createdAt });
      assert.equal([await load(store), (await store.usage(call)).bytes], [content.repeat(1000), 2000]);
    }
    // A session that has changed nothing.
    await save(store, "a".repeat(1000), key, { most, createdAt: "2026-11-23T00:00:00.000Z" });
    assert.is((await store.usage(call)).bytes, 2000);
    const refused = await errorOf(save(store, "c".repeat(1000), key, { keep: "replaced", most }));
    assert.instance(refused, QuotaError);
    const other = { ...key, workloadRef: "other" };
    assert.instance(await errorOf(save(store, "c", other, { most })), QuotaError);
    const stored = ["a", "b"].map((content) => digest(content.repeat(1000)));
    for (const sha256 of stored) assert.is((await load(store, key, sha256))?.length, 1000);
  });

  test("says what its archives take, with all versions", async ({ store }) => {
    assert.equal(await store.usage(call), { archives: 0, bytes: 0, workloads: {} });
    await save(store, "1");
    await save(store, "22", key, { keep: "replaced" });
    await save(store, "333", { tenantId: "other", workloadRef: key.workloadRef });
    await save(store, "4444", { tenantId: "other", workloadRef: "w" });
    const workloads = { [key.workloadRef]: { archives: 3, bytes: 6 }, w: { archives: 1, bytes: 4 } };
    assert.equal(await store.usage(call), { archives: 4, bytes: 10, workloads });
    await store.delete(key, call);
    const left = { [key.workloadRef]: { archives: 1, bytes: 3 }, w: { archives: 1, bytes: 4 } };
    assert.equal(await store.usage(call), { archives: 2, bytes: 7, workloads: left });
  });

  test("names the keys that have archives, and those alone", async ({ store }) => {
    assert.equal(await namesOf(store), []);
    const other = { tenantId: "other", workloadRef: "w" };
    for (const to of [key, key, other]) await save(store, "one", to, { keep: "replaced" });
    const named = async () => (await namesOf(store)).sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
    assert.equal(await named(), [key, other]);
    await store.delete(key, call);
    assert.equal(await named(), [other]);
  });

  test("lists, names and uses come in pages, in one order, each key once", async ({ store }) => {
    const keys = ["A/w", "a-b/w", "a.b/w", "a/app-2", "a/app", "a/app.x", "ab/w"].map((path) => {
      const [tenantId = "", workloadRef = ""] = path.split("/");
      return { tenantId, workloadRef };
    });
    for (const each of [...keys].reverse()) await save(store, `of ${each.workloadRef}`, each);
    const twice = { tenantId: "a", workloadRef: "app" };
    await save(store, "the next", twice, { keep: "replaced" });
    const erased = { tenantId: "a-a", workloadRef: "w" };
    await save(store, "erased", erased);
    await store.delete(erased, call);
    const paths = (items: Iterable<SnapshotKey>): string[] =>
      Array.from(items, ({ tenantId, workloadRef }) => `${tenantId}/${workloadRef}`);
    const expected = paths(keys);
    const reads = {
      list: (page: PageFilter) => store.list({ ...page, versions: false }, call),
      names: (page: PageFilter) => store.names(page, call),
      uses: (page: PageFilter) => store.uses(page, call),
    };
    for (const [name, read] of Object.entries(reads)) {
      for (const limit of [1, 2, 3, 6, 7, 100]) {
        const seen: SnapshotKey[] = [];
        let after: SnapshotKey | undefined;
        do {
          const page: StorePage<SnapshotKey> = await read({ after, limit });
          assert.ok(page.items.length <= limit, name);
          seen.push(...page.items);
          after = page.next;
        } while (after !== undefined);
        assert.equal(paths(seen), expected, `${name} by ${limit}`);
      }
      const behind = await read({ after: { tenantId: "a", workloadRef: "app-9" }, limit: 100 });
      assert.equal(paths(behind.items), ["a/app", "a/app.x", "ab/w"], `${name} behind what is not there`);
      const ofTenant = await read({ tenantId: "a", after: { tenantId: "a", workloadRef: "app-2" }, limit: 1 });
      assert.equal([paths(ofTenant.items), ofTenant.next], [["a/app"], twice], name);
      const ofWorkload = await read({ workloadRef: "w", after: { tenantId: "a-b", workloadRef: "w" }, limit: 100 });
      assert.equal([paths(ofWorkload.items), ofWorkload.next], [["a.b/w", "ab/w"], undefined], name);
      const ofBoth = await read({ tenantId: "a", workloadRef: "w", limit: 100 });
      assert.equal(ofBoth, { items: [], next: undefined }, name);
    }
    const { items, next } = await store.list({ versions: true, tenantId: "a", limit: 2 }, call);
    assert.equal(
      items.map(({ workloadRef, kept }) => `${workloadRef} ${kept}`),
      ["app-2 undefined", "app undefined", "app replaced"],
    );
    assert.equal(next, twice);
    const [use] = (await store.uses({ ...twice, limit: 1 }, call)).items;
    assert.ok(Math.abs(Date.parse(use?.usedAt ?? "") - Date.now()) < 60_000);
  });

  test("an archive of a tenant can be given to another, and is that one's own from then on", async ({ store }) => {
    await save(store, "of a");
    const other = { tenantId: "other", workloadRef: "w" };
    const given = await store.adopt(
      other,
      { ...key, sha256: digest("of a") },
      {
        ...call,
        ...{
          replaces: (await store.look(other, call)).revision,
          keep: "replaced",
          most: MOST,
          createdAt: "2026-11-22T00:00:00.000Z",
        },
      },
    );
    assert.equal([given?.metadata.tenantId, given?.metadata.workloadRef], ["other", "w"]);
    assert.is(given?.metadata.podUid, undefined);
    assert.is(await store.delete(key, call), true);
    assert.is(await load(store, other), "of a");
    const none = await store.adopt(
      key,
      { ...other, sha256: digest("another") },
      {
        ...call,
        ...{
          replaces: (await store.look(key, call)).revision,
          keep: "replaced",
          most: MOST,
          createdAt: "2026-11-22T00:00:00.000Z",
        },
      },
    );
    assert.is(none, undefined);
  });

  test("deletes an archive with its versions, where told only in the state that was seen", async ({ store }) => {
    assert.is(await store.delete(key, call), false);
    const { revision: first } = await save(store, "first");
    await save(store, "second", key, { keep: "replaced" });
    assert.instance(await errorOf(store.delete(key, { ...call, replaces: first })), StoreConflict);
    assert.is(await store.delete(key, { ...call, unusedForMs: 3_600_000 }), false);
    assert.is(await load(store), "second");
    const { revision: replaces } = await store.look(key, call);
    assert.is(await store.delete(key, { ...call, replaces }), true);
    const { state, versions } = await store.look(key, call);
    assert.equal([state, versions], ["none", []]);
    assert.equal(await listAll(store, { versions: true }), []);
    assert.is(await store.delete(key, call), false);
  });

  test("a save from before an erasure is refused, also where there was nothing to erase", async ({ store }) => {
    await save(store, "marks the store", { tenantId: "b", workloadRef: "w" });
    for (const was of ["never saved", "erased before"]) {
      const { revision: replaces } = await store.look(key, call);
      assert.is(await store.delete(key, { ...call, replaces }), false, was);
      assert.instance(await errorOf(save(store, "late", key, { replaces })), StoreConflict, was);
      assert.is((await store.look(key, call)).newest, undefined, was);
      await save(store, "anew");
      assert.is(await store.delete(key, call), true, was);
    }
  });

  test("a list has each archive once and as it was at a moment, while it is replaced and deleted", async ({
    store,
  }) => {
    const other = { tenantId: "b", workloadRef: "w" };
    await save(store, "of b", other);
    const sizes = new Map<string, number>();
    let isChanging = true;
    const changing = (async () => {
      for (let round = 0; round < 15; round += 1) {
        const { metadata } = await save(store, "x".repeat(1 + round), key, { keep: "replaced" });
        sizes.set(metadata.sha256, metadata.sizeBytes);
        if (round % 7 === 6) await store.delete(key, call);
      }
    })().finally(() => {
      isChanging = false;
    });
    // It is waited for below, also where a list fails before.
    changing.catch(() => undefined);
    const lists: StoreEntry[][] = [];
    while (isChanging) lists.push(await listAll(store, { versions: false }));
    await changing;
    assert.ok(lists.length > 5);
    for (const entries of lists) {
      assert.is(entries.filter(({ tenantId }) => tenantId === "b").length, 1);
      const own = entries.filter(({ tenantId }) => tenantId === key.tenantId);
      assert.ok(own.length <= 1);
      for (const { sizeBytes, metadata } of own) assert.is(sizes.get(metadata?.sha256 ?? "") ?? sizeBytes, sizeBytes);
      for (const { metadata } of own) assert.ok(metadata !== undefined);
    }
  });

  test("keeps tenants and workloads apart, and takes no other names for them", async ({ store }) => {
    const keys = [
      { tenantId: "a", workloadRef: "b" },
      { tenantId: "a", workloadRef: "b.tar.gz" },
      { tenantId: "a", workloadRef: "b.json" },
      { tenantId: "a.b", workloadRef: "b" },
      { tenantId: "A", workloadRef: "b" },
      { tenantId: "x-.-y", workloadRef: "b" },
    ];
    for (const each of keys) await save(store, `of ${each.tenantId}/${each.workloadRef}`, each);
    for (const each of keys) assert.is(await load(store, each), `of ${each.tenantId}/${each.workloadRef}`);
    assert.is((await listAll(store, { versions: false })).length, keys.length);
    assert.is((await listAll(store, { versions: false, tenantId: "a" })).length, 3);
    for (const bad of ["..", ".", "", "a/b", "a/../b", "-a", "a\n", "%2e%2e", "a?b", "x".repeat(64)]) {
      for (const hostile of [
        { tenantId: bad, workloadRef: "b" },
        { tenantId: "a", workloadRef: bad },
      ]) {
        const asked = { ...call, replaces: "none", most: MOST, createdAt: "2026-11-22T00:00:00.000Z" };
        const attempts = [
          () => store.look(hostile, call),
          () => store.open(hostile, "0".repeat(64), call),
          () => store.put(hostile, pieces("x"), { ...asked, describe: () => ({ ...described, createdAt: "" }) }),
          () => store.adopt(hostile, { ...key, sha256: "0".repeat(64) }, asked),
          () => store.adopt(key, { ...hostile, sha256: "0".repeat(64) }, asked),
          () => store.delete(hostile, call),
          () => store.touch([hostile], call),
        ];
        for (const attempt of attempts) {
          assert.match(String(await errorOf((async () => await attempt())())), /TypeError: Cannot keep files/);
        }
      }
    }
  });

  test("notes that archives are in use, and nothing of those that are not there", async ({ store }) => {
    await save(store, "one");
    await store.touch([key, { tenantId: "nobody", workloadRef: "w" }], call);
    const [entry, ...others] = await listAll(store, { versions: true });
    assert.ok(Math.abs(Date.parse(entry?.usedAt ?? "") - Date.now()) < 60_000);
    assert.equal(others, []);
    await store.tidy(call);
    assert.is(await load(store), "one");
  });
}
