import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { QuotaError, type SnapshotStore, StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { call, key, listAll, load, MOST, save } from "./store-contract.ts";
import { serveStore } from "./store-server.ts";
import { volumeSuite } from "./volume-suite.ts";

const test = volumeSuite("quotas of the snapshots volume");

const other = { ...key, workloadRef: "other" };
const ofBytes = (bytes: number, fill = "x"): string => fill.repeat(bytes);

async function errorOf(attempt: Promise<unknown>): Promise<Error> {
  return await attempt.then(
    () => new Error("it was taken"),
    (error: Error) => error,
  );
}

async function versionsOf(store: SnapshotStore): Promise<number> {
  return (await store.look(key, call)).versions.length;
}

test("a tenant's archives take no more than its limit, and a refusal leaves what was there", async (context) => {
  const { store, root } = context;
  const most = { tenantBytes: 2048 };
  await save(store, ofBytes(1000), key, { most });
  await save(store, ofBytes(1000), other, { most });
  const error = await errorOf(save(store, ofBytes(1100), key, { most }));
  assert.instance(error, QuotaError);
  assert.instance(error, StoreError);
  assert.match(
    error.message,
    'it would take 2.06 KiB of 2 KiB (TENANCY_SNAPSHOT_TENANT_LIMIT, or snapshotMb of its quota) for tenant "a.b"',
  );
  assert.match(
    error.message,
    "delete snapshots of other workloads that it does not need, remove names of versions, or raise the limit",
  );
  assert.is((await load(store))?.length, 1000);
  assert.equal(
    readdirSync(join(root, key.tenantId)).filter((name) => name.endsWith(".partial")),
    [],
  );
  assert.is((await store.usage(call)).bytes, 2000);
  await save(store, ofBytes(1048), key, { most });
  // Another tenant has a limit of its own.
  await save(store, ofBytes(2048), { ...key, tenantId: "another" }, { most });
  await store.delete(other, call);
  await save(store, ofBytes(2048), key, { most });
});

test("a workload's archives of all tenants take no more than its limit, of two at once one is refused", async (context) => {
  const { store } = context;
  const most = { workloadBytes: 2500 };
  const tenants = ["a", "b", "c"].map((tenantId) => ({ ...key, tenantId }));
  const results = await Promise.all(
    tenants.map((tenant) =>
      save(store, ofBytes(1000), tenant, { most }).then(
        () => "taken",
        (error: Error) => error.message,
      ),
    ),
  );
  assert.is(results.filter((result) => result === "taken").length, 2);
  assert.match(results.find((result) => result !== "taken") ?? "", "(TENANCY_SNAPSHOT_WORKLOAD_LIMIT)");
  await save(store, ofBytes(1000), { ...key, workloadRef: "w" }, { most });
});

test("history goes where there is no room for it, the oldest first, and what was replaced stays", async ({ store }) => {
  const most = { history: 5, replaced: 3, tenantBytes: 4000 };
  const at = (hour: number) => ({ createdAt: `2026-11-21T0${hour}:00:00.000Z` });
  await save(store, ofBytes(1000, "0"), key, at(0));
  await save(store, ofBytes(1000, "1"), key, { ...at(1), keep: "replaced", most });
  await save(store, ofBytes(1000, "2"), key, { ...at(2), keep: "history", most });
  await save(store, ofBytes(1000, "3"), key, { ...at(3), keep: "history", most });
  assert.is(await versionsOf(store), 3);
  await save(store, ofBytes(1000, "4"), key, { ...at(4), keep: "history", most });
  const contents = async () => {
    const { versions } = await store.look(key, call);
    return await Promise.all(versions.map(async ({ sha256 }) => (await load(store, key, sha256))?.slice(0, 1)));
  };
  assert.equal(await contents(), ["3", "2", "0"]);
  // No room for any history: not for what this save would have kept either.
  await save(store, ofBytes(2500, "5"), key, { ...at(5), keep: "history", most });
  assert.equal(await contents(), ["0"]);
  assert.instance(
    await errorOf(save(store, ofBytes(1000, "6"), key, { ...at(6), keep: "replaced", most })),
    QuotaError,
  );
  assert.equal(await contents(), ["0"]);
  assert.is((await store.usage(call)).bytes, 3500);
});

test("there is room for what a commit takes, to the byte, and for nothing more", async (context) => {
  const { store, root } = context;
  const replaced = { ...key, workloadRef: "replaced" };
  await save(store, ofBytes(500), other);
  for (const fill of ["1", "2"]) await save(store, ofBytes(300, fill), replaced, { keep: "replaced" });
  await save(store, ofBytes(200, "3"), replaced, { keep: "history", most: { history: 5 } });
  const none = { ...key, workloadRef: "none" };
  const before = await store.usage(call);
  // What takes no more than there was is never too much; history goes, and what was replaced stays.
  for (const [of, keep, fits] of [
    [none, undefined, 700],
    [other, undefined, 1200],
    [other, "replaced", 700],
    [other, "history", 1200],
    [replaced, undefined, 1200],
    [replaced, "replaced", 1000],
    [replaced, "history", 1200],
  ] as const) {
    const most = { history: 5, replaced: 3, tenantBytes: 2000 };
    const asked = { ...call, keep, most };
    await store.checkRoom(of, { ...asked, sizeBytes: fits });
    const error = await errorOf(store.checkRoom(of, { ...asked, sizeBytes: fits + 1 }));
    assert.instance(error, QuotaError, `${of.workloadRef} ${keep} ${error}`);
    const committed = await errorOf(save(store, ofBytes(fits + 1), of, { keep, most }));
    assert.equal([committed.name, committed.message], [error.name, error.message]);
  }
  assert.equal(await store.usage(call), before);
  assert.is(readdirSync(join(root, key.tenantId)).filter((name) => name.endsWith(".partial")).length, 0);
});

test("where the limit was lowered, an archive may still become smaller", async ({ store }) => {
  await save(store, ofBytes(3000));
  const most = { tenantBytes: 1024 };
  await save(store, ofBytes(2000), key, { most });
  assert.instance(await errorOf(save(store, ofBytes(2001), key, { most })), QuotaError);
});

test("what was there when the server was started counts, and what others have changed since a sweep", async (context) => {
  const { store, root } = context;
  await save(store, ofBytes(1000));
  await save(store, ofBytes(1000), other);
  const again = await serveStore(root);
  try {
    const most = { tenantBytes: 2000 };
    assert.instance(await errorOf(save(again.store, ofBytes(1001), key, { most })), QuotaError);
    rmSync(join(root, key.tenantId, "other.tar.gz"));
    await again.store.tidy(call);
    await save(again.store, ofBytes(1001), key, { most });
    const { archives, bytes } = await again.store.usage(call);
    assert.equal([archives, bytes], [1, 1001]);
  } finally {
    await again.close();
  }
});

test("what counts once is one file, also where the same bytes were sent again, and after a restart", async (context) => {
  const { store, root } = context;
  for (const fill of ["a", "b"]) await save(store, ofBytes(1000, fill), key, { keep: "replaced" });
  const { revision: replaces, versions } = await store.look(key, call);
  const sha256 = versions[0]?.sha256 ?? "";
  const createdAt = "2026-11-22T00:00:00.000Z";
  await store.adopt(key, { ...key, sha256 }, { ...call, replaces, keep: "replaced", most: MOST, createdAt });
  const paths = [`${key.workloadRef}.tar.gz`, `.versions/${key.workloadRef}/${sha256.slice(0, 16)}.tar.gz`];
  const files = () => new Set(paths.map((path) => statSync(join(root, key.tenantId, path)).ino)).size;
  assert.is(files(), 1);
  for (const keep of [undefined, "replaced"] as const) {
    await save(store, ofBytes(1000, "a"), key, { keep });
    assert.equal([files(), (await store.usage(call)).bytes], [1, 2000]);
  }
  await context.served.close();
  context.served = await serveStore(root);
  assert.is((await context.served.store.usage(call)).bytes, 2000);
  assert.equal(
    readdirSync(root, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".partial")),
    [],
  );
});

test("a tenant's folder that cannot be read keeps no other tenant from a save", async ({ root, store }) => {
  mkdirSync(join(root, "broken/.versions"), { recursive: true });
  writeFileSync(join(root, "broken/.versions/w"), "a file where a folder belongs");
  const most = { tenantBytes: 2000, workloadBytes: 2000 };
  await save(store, ofBytes(1000), key, { most });
  await store.tidy(call);
  await save(store, ofBytes(1001), key, { most });
  assert.is((await store.usage(call)).bytes, 1001);
  assert.instance(await errorOf(listAll(store, { versions: true })), StoreError);
});

test.run();
