import { createHash } from "node:crypto";
import type { Test } from "uvu";
import * as assert from "uvu/assert";
import { QuotaError, type SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { MOST_NAMES } from "../../../crds/snapshots/version-names.ts";
import { errorOf } from "../../error-of.ts";
import { checkpoint, goesOnFrom, release, rollBack, shown } from "./checkpoint-contract.ts";
import { call, key, save } from "./store-contract.ts";

const digest = (content: string): string => createHash("sha256").update(content).digest("hex");
const NONE = { history: 0, replaced: 0 };

/** The names of each archive of a key, the newest archive first. */
async function named(store: SnapshotStore, of = key): Promise<(readonly string[] | undefined)[]> {
  const { newest, versions } = await store.look(of, call);
  return [newest, ...versions].map((one) => one?.names);
}

async function setName(store: SnapshotStore, content: string, name: string): Promise<string> {
  return await store.setName(key, { sha256: digest(content), name }, call);
}

/** What every store promises about the names of archives. */
export function testNames<T extends { store: SnapshotStore }>(test: Test<T>): void {
  test("a named checkpoint stays beside later saves of its session and of others", async ({ store }) => {
    await checkpoint(store, "step 1", { session: "a" });
    assert.is(await setName(store, "step 1", "before"), "named");
    assert.equal(await named(store), [undefined, ["before"]]);
    for (const content of ["step 2", "step 3"]) await checkpoint(store, content, { session: "a", most: NONE });
    assert.equal(await shown(store), ["-", "step 3 (a)", "step 1"]);
    for (const session of ["b", "c"]) await checkpoint(store, `of ${session}`, { session, most: NONE });
    assert.equal([(await shown(store)).at(-1), await goesOnFrom(store, "a")], ["step 1", ["step 3"]]);
    await release(store, "end", { session: "a", most: NONE });
    assert.equal(await goesOnFrom(store, "a"), []);
    assert.equal([(await shown(store)).at(-1), (await named(store)).at(-1)], ["step 1", ["before"]]);
    for (const content of ["later", "last"]) await save(store, content, key, { most: NONE });
    assert.equal([(await shown(store)).at(-1), (await named(store)).at(-1)], ["step 1", ["before"]]);
  });

  test("a session's next checkpoint with the files of a named one stores nothing", async ({ store }) => {
    await checkpoint(store, "same", { session: "a" });
    await setName(store, "same", "kept");
    await checkpoint(store, "same", { session: "a" });
    assert.equal(
      [await shown(store), await named(store)],
      [
        ["-", "same (a)"],
        [undefined, ["kept"]],
      ],
    );
    await checkpoint(store, "same", { session: "b" });
    assert.equal(
      [await shown(store), await named(store)],
      [
        ["-", "same"],
        [undefined, ["kept"]],
      ],
    );
  });

  test("the files of a session that are given up do not take a named checkpoint along", async ({ store }) => {
    await checkpoint(store, "kept", { session: "a" });
    await setName(store, "kept", "mine");
    await checkpoint(store, "given up", { session: "a" });
    assert.is(await store.dropCheckpoint(key, { ...call, session: "a" }), true);
    assert.equal(
      [await shown(store), await named(store)],
      [
        ["-", "kept"],
        [undefined, ["mine"]],
      ],
    );
    assert.is(await store.dropCheckpoint(key, { ...call, session: "a" }), false);
  });

  test("a named newest archive stays as an older version when it is replaced", async ({ store }) => {
    await save(store, "release 1");
    await setName(store, "release 1", "v1");
    await save(store, "release 1");
    assert.equal(await named(store), [["v1"]]);
    await save(store, "release 2", key, { most: NONE });
    assert.equal(
      [await shown(store), await named(store)],
      [
        ["release 2", "release 1"],
        [undefined, ["v1"]],
      ],
    );
    await rollBack(store, "release 1");
    const after = [(await shown(store))[0], (await named(store))[0]];
    assert.equal(after, ["release 1", ["v1"]]);
    await save(store, "release 3", key, { most: NONE });
    const names = await named(store);
    assert.is(names[(await shown(store)).indexOf("release 1")]?.[0], "v1");
  });

  test("a copy of a named archive has no name", async ({ store }) => {
    await save(store, "original");
    await setName(store, "original", "v1");
    const to = { tenantId: "other", workloadRef: "w" };
    const { revision: replaces } = await store.look(to, call);
    const adopted = { ...call, replaces, most: NONE, createdAt: "2026-11-22T00:00:00.000Z" };
    await store.adopt(to, { ...key, sha256: digest("original") }, adopted);
    assert.equal([await named(store, to), await named(store)], [[undefined], [["v1"]]]);
  });

  test("a name belongs to one archive, and there are at most so many", async ({ store }) => {
    await save(store, "one");
    await checkpoint(store, "two", { session: "a" });
    assert.is(await setName(store, "one", "x"), "named");
    assert.is(await setName(store, "one", "x"), "named");
    assert.is(await setName(store, "two", "x"), "taken");
    assert.is(await setName(store, "never saved", "y"), "gone");
    const names = Array.from({ length: MOST_NAMES - 1 }, (_, index) => `n${index}`);
    const set = await Promise.all(names.slice(0, 4).map((name) => setName(store, "one", name)));
    assert.equal(set, Array(4).fill("named"));
    for (const name of names.slice(4)) assert.is(await setName(store, "two", name), "named");
    assert.is(await setName(store, "two", "one-more"), "full");
    assert.is(await setName(store, "two", "n10"), "named");
    assert.equal([...((await named(store))[0] ?? [])].sort(), ["n0", "n1", "n2", "n3", "x"]);
    const elsewhere = { tenantId: "other", workloadRef: "w" };
    assert.is(await store.setName(elsewhere, { sha256: digest("one"), name: "z" }, call), "gone");
  });

  test("without its last name, an archive is kept as others are", async ({ store }) => {
    await checkpoint(store, "step 1", { session: "a" });
    for (const name of ["x", "y"]) await setName(store, "step 1", name);
    assert.equal([await store.dropName(key, "x", call), await store.dropName(key, "x", call)], [true, false]);
    await checkpoint(store, "step 2", { session: "a" });
    assert.equal(
      [await shown(store), await named(store)],
      [
        ["-", "step 2 (a)", "step 1"],
        [undefined, undefined, ["y"]],
      ],
    );
    assert.is(await store.dropName(key, "y", call), true);
    assert.equal(await shown(store), ["-", "step 2 (a)", "step 1"]);
    for (const content of ["of 1", "of 2"]) await save(store, content, key, { most: NONE });
    assert.equal(await shown(store), ["of 2", "step 2 (a)"]);
    assert.is(await store.dropName({ tenantId: "other", workloadRef: "w" }, "y", call), false);
  });

  test("a limit on bytes does not delete a named version, a deletion of all does", async ({ store }) => {
    const most = { history: 3, replaced: 3, tenantBytes: 15 };
    await save(store, "0123456789", key, { most });
    await setName(store, "0123456789", "v1");
    assert.instance(await errorOf(save(store, "abcdefghij", key, { keep: "history", most })), QuotaError);
    assert.equal(await shown(store), ["0123456789"]);
    await save(store, "abcdefghij", key, { keep: "history", most: { ...most, tenantBytes: 25 } });
    assert.equal(await shown(store), ["abcdefghij", "0123456789"]);
    assert.is(await store.delete(key, call), true);
    assert.equal(await shown(store), ["-"]);
  });
}
