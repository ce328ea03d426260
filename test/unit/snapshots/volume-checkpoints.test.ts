import { createHash, randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, utimesSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Readable } from "node:stream";
import * as assert from "uvu/assert";
import { type SnapshotStore, StoreConflict, StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { createStoreClient } from "../../../crds/snapshots/store-client.ts";
import { createStoreConnection } from "../../../crds/snapshots/store-connection.ts";
import { MARK, TOKEN as TOKEN_HEADER } from "../../../crds/snapshots/store-protocol.ts";
import { createVolume } from "../../../operator/snapshots/helper/store/volume.ts";
import { errorOf } from "../../error-of.ts";
import { bitsOf, compose, fileOf, pack } from "../archive/packed-archives.ts";
import { checkpoint, goesOnFrom, shown, testCheckpoints } from "./checkpoint-contract.ts";
import { testNames } from "./names-contract.ts";
import { call, key, loadBytes, MOST, save } from "./store-contract.ts";
import { TOKEN } from "./store-server.ts";
import { saveTabled } from "./tabled-saves.ts";
import { type OnVolume, volumeSuite } from "./volume-suite.ts";

const test = volumeSuite("checkpoints on the snapshots volume");
const described = { uid: 1000, gid: 2000, entries: 1, contentBytes: 10, overlayDirs: ["/data"] };
const createdAt = "2026-11-21T12:00:00.000Z";
const digest = (content: string): string => createHash("sha256").update(content).digest("hex");

testCheckpoints(test);
testNames(test);

function filesOf({ root }: Pick<OnVolume, "root">): string[] {
  return readdirSync(root, { recursive: true }).map(String).sort();
}

/** Uploads to the server, for commits that can be repeated. */
function requestsOf({ served }: OnVolume) {
  const { host, port } = served.endpoint.options;
  const at = `http://${host}:${port}/v1`;
  const path = `${key.tenantId}/${key.workloadRef}`;
  const headers = { [TOKEN_HEADER]: TOKEN };
  return {
    async upload(id: string, content: string): Promise<void> {
      const response = await fetch(`${at}/uploads/${path}/${id}`, { method: "PUT", headers, body: content });
      assert.is(response.status, 200);
    },
    async commit(kind: "checkpoints" | "keys", id: string, { content, session, replaces }: Record<string, string>) {
      const of = content ?? "";
      const metadata = { ...described, ...key, createdAt, sha256: digest(of), sizeBytes: of.length, session };
      const marked = kind === "keys" ? metadata : { ...metadata, kind: "checkpoint" };
      const body = JSON.stringify({ id, replaces, keep: "replaced", most: MOST, metadata: marked });
      const response = await fetch(`${at}/${kind}/${path}`, { method: "POST", headers, body });
      return [response.status, await response.json()];
    },
  };
}

test("the last checkpoint of a key leaves no file of it", async (context) => {
  const { root, store } = context;
  await save(store, "another", { tenantId: "other", workloadRef: "w" });
  const before = filesOf(context);
  await checkpoint(store, "first", { session: "a" });
  await checkpoint(store, "second", { session: "a" });
  const folder = join(root, key.tenantId, ".versions", key.workloadRef);
  const name = `${digest("second").slice(0, 16)}.tar.gz`;
  assert.equal(readdirSync(folder).sort(), [name, `${name}.${digest("second").slice(0, 16)}.json`]);
  // A save that was killed leaves metadata without an archive.
  writeFileSync(join(folder, `${"0".repeat(16)}.tar.gz.${"0".repeat(16)}.json`), "{}");
  await store.dropCheckpoint(key, { ...call, session: "a" });
  assert.equal(filesOf(context), before);
});

test("a refused checkpoint leaves no file", async (context) => {
  const { store } = context;
  await save(store, "another", { tenantId: "other", workloadRef: "w" });
  const before = filesOf(context);
  const refused = checkpoint(store, "too much", { session: "a", most: { tenantBytes: 1 } });
  assert.match(String(await errorOf(refused)), /QuotaError/);
  assert.equal(filesOf(context), before);
});

test("a commit whose answer was lost gives the same result once more", async (context) => {
  const { store } = context;
  const { upload, commit } = requestsOf(context);
  await save(store, "of 1");
  for (const [index, content] of ["first", "second", "second"].entries()) {
    const { revision: replaces } = await store.look(key, call);
    const id = String(index).repeat(32);
    await upload(id, content);
    const done = await commit("checkpoints", id, { content, session: "a", replaces });
    assert.is(done[0], 200);
    assert.equal(await commit("checkpoints", id, { content, session: "a", replaces }), done);
    assert.equal(await shown(store), ["of 1", `${content} (a)`]);
  }
  for (const [session, content] of [
    ["b", "of 1"],
    ["b", "second"],
    ["a", "of 1"],
  ] as const) {
    // Nothing is stored for the same bytes, nor left of the upload.
    const { revision: replaces } = await store.look(key, call);
    const before = filesOf(context);
    const id = randomBytes(16).toString("hex");
    await upload(id, content);
    const done = await commit("checkpoints", id, { content, session, replaces });
    assert.is(done[0], 200);
    assert.equal(await commit("checkpoints", id, { content, session, replaces }), done);
    assert.equal([filesOf(context), await goesOnFrom(store, session)], [before, [content]]);
  }
  assert.equal(await shown(store), ["of 1", "second"]);
});

test("a commit that was ended before it deleted the earlier checkpoint goes on with that", async (context) => {
  const { store } = context;
  const { upload, commit } = requestsOf(context);
  await checkpoint(store, "earlier", { session: "a" });
  const { revision: replaces } = await store.look(key, call);
  for (const [kind, content] of [
    ["checkpoints", "next"],
    ["keys", "the release"],
  ] as const) {
    const id = digest(content).slice(0, 32);
    await upload(id, content);
    const { revision } = await store.look(key, call);
    assert.is((await commit(kind, id, { content, session: "a", replaces: revision }))[0], 200);
    const found = await shown(store);
    // The earlier one comes back, as a server that is killed in the middle leaves it.
    const other = { ...key, tenantId: "other" };
    await checkpoint(store, "earlier", { session: "a", to: other });
    putBack(context, "earlier", other.tenantId);
    assert.is((await shown(store)).length, found.length + 1);
    assert.is((await commit(kind, id, { content, session: "a", replaces }))[0], 200);
    assert.equal(await shown(store), found);
    await store.delete(other, call);
  }
  assert.equal(await shown(store), ["the release"]);
});

/** Moves the version of another tenant to this one. */
function putBack({ root }: OnVolume, content: string, from: string): void {
  const [source, target] = [from, key.tenantId].map((tenant) => join(root, tenant, ".versions", key.workloadRef));
  const name = `${digest(content).slice(0, 16)}.tar.gz`;
  const record = `${name}.${digest(content).slice(0, 16)}.json`;
  mkdirSync(target ?? "", { recursive: true });
  renameSync(join(source ?? "", name), join(target ?? "", name));
  const written = JSON.parse(readFileSync(join(source ?? "", record), "utf8")) as object;
  writeFileSync(join(target ?? "", record), JSON.stringify({ ...written, tenantId: key.tenantId }));
}

test("a checkpoint is composed of what is there, also of the earlier one of its session", async ({ store }) => {
  const items = ["a", "b", "c"].map((name) => fileOf(`data/${name}`, randomBytes(20_000)));
  const base = await pack(items);
  await saveTabled(store, { archive: base });
  let present = { packed: base, sha256: (await store.look(key, call)).newest?.sha256 ?? "" };
  for (const round of [1, 2, 3]) {
    const changes = await pack([fileOf("data/b", randomBytes(50 * round))]);
    const kept = new Set([0, 2]);
    const { revision: replaces } = await store.look(key, call);
    const { metadata } = await store.put(key, Readable.from([changes.archive]), {
      ...{ ...call, replaces, most: MOST },
      onto: { base: present.sha256, keeps: bitsOf(kept), table: () => changes.mark },
      describe: ({ table }) => ({ ...described, createdAt, table, kind: "checkpoint", session: "a" }),
    });
    const packed = await compose(present.packed, kept, changes);
    assert.ok((await loadBytes(store, key, metadata.sha256))?.equals(packed.archive), `round ${round}`);
    present = { packed, sha256: metadata.sha256 };
  }
  const { newest, versions } = await store.look(key, call);
  assert.equal(
    [newest?.sha256, versions.map(({ sha256 }) => sha256)],
    [createHash("sha256").update(base.archive).digest("hex"), [present.sha256]],
  );
});

test("a checkpoint is in use for as long as it is new, with and without a newest archive", async ({ root, store }) => {
  const hour = 3_600_000;
  await save(store, "of 1");
  await checkpoint(store, "running", { session: "a" });
  await checkpoint(store, "alone", { session: "a", to: { ...key, workloadRef: "alone" } });
  const old = new Date("2026-11-21T12:00:00.000Z");
  for (const name of readdirSync(join(root, key.tenantId))) {
    if (!name.startsWith(".")) utimesSync(join(root, key.tenantId, name), old, old);
  }
  for (const workloadRef of [key.workloadRef, "alone"]) {
    assert.is(await store.delete({ ...key, workloadRef }, { ...call, unusedForMs: hour }), false);
  }
  const later = createVolume({ root, now: () => Date.now() + 2 * hour });
  for (const workloadRef of [key.workloadRef, "alone"]) {
    assert.is(await later.delete({ ...key, workloadRef }, { unusedForMs: hour }, call.signal), true);
  }
  assert.is(existsSync(join(root, key.tenantId)), false);
});

test("another server that has taken over the volume alone drops checkpoints", async ({ root, store }) => {
  await checkpoint(store, "running", { session: "a" });
  const successor = createVolume({ root });
  await successor.takeOver();
  const late = await errorOf(store.dropCheckpoint(key, { ...call, session: "a" }));
  assert.ok(late instanceof StoreError && late.isTransient, String(late));
  assert.is(await successor.dropCheckpoint(key, { session: "a" }, call.signal), true);
});

test("a server that starts again keeps checkpoints, and refuses those from before an erasure", async (context) => {
  const { store, root } = context;
  await save(store, "of 1");
  await checkpoint(store, "running", { session: "a" });
  const { revision } = await store.look(key, call);
  assert.is((await createVolume({ root }).look(key)).revision, revision);
  await store.delete(key, call);
  assert.instance(await errorOf(checkpoint(store, "late", { session: "a", replaces: revision })), StoreConflict);
});

test("a server of an earlier version is not asked to make a checkpoint the newest archive", async () => {
  const asked: string[] = [];
  const sha256 = digest("running");
  const server = createServer((request, response) => {
    response.setHeader(MARK, "1");
    request.resume().on("end", () => {
      asked.push(`${request.method} ${request.url?.split("/")[2]}`);
      if (request.method === "PUT") return response.end(JSON.stringify({ received: { sha256, sizeBytes: 7 } }));
      if (request.url?.includes("/uploads/")) return response.end("{}");
      const error = `Cannot ${request.method} ${request.url}: there is no such call`;
      response.writeHead(400).end(JSON.stringify({ error, kind: "request" }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const endpoint = async () => ({ secure: false, options: { host: "127.0.0.1", port }, token: TOKEN });
  const store: SnapshotStore = createStoreClient({ connection: createStoreConnection({ endpoint }) });
  try {
    for (const attempt of [
      () => checkpoint(store, "running", { session: "a", replaces: "any" }),
      () => store.dropCheckpoint(key, { ...call, session: "a" }),
    ]) {
      const error = await errorOf(attempt());
      assert.ok(error instanceof StoreError && error.isTransient, String(error));
      assert.match(error.message, /of an earlier version, without checkpoints/);
    }
    // The upload is given up.
    assert.equal(asked, ["PUT uploads", "POST checkpoints", "DELETE uploads", "DELETE checkpoints"]);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

test.run();
