import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { gunzipSync } from "node:zlib";
import * as assert from "uvu/assert";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import { TOKEN as TOKEN_HEADER } from "../../../crds/snapshots/store-protocol.ts";
import { createDeferred } from "../../../crds/waits.ts";
import { errorOf } from "../../error-of.ts";
import { eventually } from "../../eventually.ts";
import { bitsOf, fileOf, pack, tarOf } from "../archive/packed-archives.ts";
import { tarEnd } from "../archive/raw-tar.ts";
import { call, key, MOST, save } from "./store-contract.ts";
import { TOKEN } from "./store-server.ts";
import { saveTabled } from "./tabled-saves.ts";
import { type OnVolume, volumeSuite } from "./volume-suite.ts";

const test = volumeSuite("archives that are composed on the snapshots volume");
const KiB = 1024;
const items = ["a", "b", "c"].map((name) => fileOf(`data/${name}`, randomBytes(100 * KiB)));
const change = fileOf("data/b", randomBytes(50));

function filesOf({ root }: OnVolume): string[] {
  return readdirSync(root, { recursive: true }).map(String).sort();
}

function isComposed({ root }: OnVolume): boolean {
  const archive = readFileSync(join(root, key.tenantId, `${key.workloadRef}.tar.gz`));
  const [a, , c] = items;
  if (a === undefined || c === undefined) return false;
  return gunzipSync(archive).equals(Buffer.concat([tarOf([a, c, change]), tarEnd]));
}

test("asked twice at once, and again later, is composed once", async (context) => {
  const { served } = context;
  const { metadata: base } = await saveTabled(context.store, { archive: await pack(items) });
  const changes = await pack([change]);
  const { host, port } = served.endpoint.options;
  const path = `http://${host}:${port}/v1/uploads/${key.tenantId}/${key.workloadRef}/${"0".repeat(32)}`;
  const headers = { [TOKEN_HEADER]: TOKEN };
  const before = filesOf(context);
  await fetch(path, { method: "PUT", headers, body: changes.archive });
  const onto = {
    base: base.sha256,
    keeps: Buffer.from(bitsOf(new Set([0, 2]))).toString("base64"),
    table: changes.mark,
  };
  const ask = async () => await (await fetch(path, { method: "POST", headers, body: JSON.stringify(onto) })).json();
  const [first, second] = await Promise.all([ask(), ask()]);
  assert.equal(second, first);
  assert.equal(await ask(), first);
  await fetch(path, { method: "DELETE", headers });
  assert.equal(filesOf(context), before);
});

test("what has happened to the base meanwhile stands, and nothing is left behind", async (context) => {
  const { store } = context;
  const createdAt = "2026-11-22T00:00:00.000Z";
  for (const [what, meanwhile, refusal] of [
    ["nothing", async () => undefined, undefined],
    ["another save", () => save(store, "another"), /StoreConflict/],
    ["an erasure", () => store.delete(key, call), /StoreConflict/],
    [
      "a rollback",
      async ({ sha256 }: SnapshotMetadata) => {
        const { revision: replaces } = await store.look(key, call);
        await store.adopt(key, { ...key, sha256 }, { ...call, replaces, most: MOST, createdAt });
      },
      /StoreConflict/,
    ],
    [
      "a copy to another tenant",
      async ({ sha256 }: SnapshotMetadata) => {
        const to = { ...key, tenantId: "fork" };
        const { revision: replaces } = await store.look(to, call);
        await store.adopt(to, { ...key, sha256 }, { ...call, replaces, most: MOST, createdAt });
      },
      undefined,
    ],
  ] as const) {
    await store.delete(key, call);
    const { metadata: base } = await saveTabled(store, { archive: await pack(items) });
    const happened = createDeferred<void>();
    const onto = { base: base.sha256, kept: new Set([0, 2]) };
    const put = errorOf(saveTabled(store, { archive: await pack([change]), onto, pause: happened.promise }));
    const begun = () => filesOf(context).some((name) => name.endsWith(".partial"));
    await eventually(begun);
    await meanwhile(base);
    const stands = (await store.look(key, call)).revision;
    happened.resolve();
    const error = await put;
    if (refusal === undefined) {
      assert.is(error, undefined, `${what}: ${error}`);
      assert.ok(isComposed(context), what);
    } else {
      assert.match(String(error), refusal, what);
      assert.is((await store.look(key, call)).revision, stands, what);
    }
    assert.ok(!begun(), `${what}: ${filesOf(context)}`);
  }
});

test("an erasure while the archive is composed leaves no byte of it", async (context) => {
  const { store } = context;
  const packed = await pack(Array.from({ length: 40 }, (_, index) => fileOf(`data/${index}`, randomBytes(1024 * KiB))));
  const changes = await pack([change]);
  let wasMet = false;
  for (let tries = 0; tries < 50 && !wasMet; tries += 1) {
    const { metadata: base } = await saveTabled(store, { archive: packed });
    const onto = { base: base.sha256, kept: new Set(Array(40).keys()) };
    let isOver = false;
    const put = errorOf(saveTabled(store, { archive: changes, onto })).finally(() => {
      isOver = true;
    });
    // While it is composed, it has the whole id of its upload in its name.
    while (!isOver && !wasMet) {
      await setImmediate();
      wasMet = filesOf(context).some((name) => /\.[0-9a-f]{32}\.partial$/.test(name));
    }
    await store.delete(key, call);
    if (wasMet) assert.match(String(await put), /StoreConflict/);
    assert.equal(filesOf(context), [".helper", ".marked"]);
  }
  assert.ok(wasMet);
});

test("a base that is damaged, gone or has no table is refused, and so is a table of another archive", async (context) => {
  const { root, store } = context;
  const packed = await pack(items);
  const changes = await pack([change]);
  const refusals: unknown[] = [];
  const attempt = async (base: string, archive = changes) =>
    refusals.push(await errorOf(saveTabled(store, { archive, onto: { base, kept: new Set([0]) } })));
  const plain = await save(store, "without a table");
  await attempt(plain.metadata.sha256);
  const { sha256 } = (await saveTabled(store, { archive: packed })).metadata;
  await attempt("0".repeat(64));
  await attempt(sha256, { ...changes, mark: packed.mark });
  const path = join(root, key.tenantId, `${key.workloadRef}.tar.gz`);
  const damaged = readFileSync(path);
  damaged.writeUInt8(damaged.readUInt8(5000) ^ 1, 5000);
  writeFileSync(path, damaged);
  await attempt(sha256);
  assert.equal(
    refusals.map((error) => (error as Error).name),
    Array.from({ length: 4 }, () => "ArchiveError"),
  );
  assert.ok(!filesOf(context).some((name) => name.endsWith(".partial")), String(filesOf(context)));
});

test.run();
