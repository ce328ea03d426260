import { createHash, randomBytes } from "node:crypto";
import { readdirSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import { NetworkError } from "../../../crds/client/api-error.ts";
import { type Clock, systemClock } from "../../../crds/client/clock.ts";
import { createS3Client } from "../../../crds/snapshots/s3/s3-client.ts";
import { createS3Store, type S3Store } from "../../../crds/snapshots/s3/s3-store.ts";
import { QuotaError, StoreConflict, StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import { testCheckpoints } from "../../unit/snapshots/checkpoint-contract.ts";
import { testNames } from "../../unit/snapshots/names-contract.ts";
import { call, key, listAll, load, MOST, namesOf, save, testStore } from "../../unit/snapshots/store-contract.ts";
import type { ObjectFault } from "./object-faults.ts";
import { type TestBucket, useBuckets } from "./test-buckets.ts";

interface Context extends TestBucket {
  store: S3Store;
  isMarked: boolean;
}

const test = suite<Context>("the store in object storage");
const PART_BYTES = 5 * 1024 * 1024;
const UNNAMED = "20261122T010203Z-0123456789abcdef.tar.gz";

useBuckets(test);
test.before.each(async (context) => {
  context.isMarked = false;
  context.store = storeOf(context);
  await context.store.check(call);
});

function storeOf(context: Context, prefix = "some/prefix"): S3Store {
  const { client, bucket } = context;
  return createS3Store({ client, bucket, prefix, partBytes: PART_BYTES, wasMarked: async () => context.isMarked });
}

async function errorOf(attempt: Promise<unknown>): Promise<unknown> {
  return await attempt.then(
    () => undefined,
    (error: unknown) => error,
  );
}

/** The keys of all archives that are there, named or not. */
async function archivesIn({ client }: Context): Promise<string[]> {
  const query = { "list-type": "2", prefix: "some/prefix/archives/" };
  const answer = await client.send({ method: "GET", query, signal: call.signal });
  return [...answer.body.toString("utf8").matchAll(/<Key>([^<]*)/g)].map(([, name = ""]) => name);
}

testStore(test);
testCheckpoints(test);
testNames(test);

test("to name the keys takes a list of heads, and nothing else of the bucket", async (context) => {
  const { faults, store } = context;
  const other = { tenantId: "other", workloadRef: "w" };
  for (const to of [key, other]) await save(store, "one", to);
  await store.delete(other, call);
  const heads = "some/prefix/heads/";
  faults.decide = ({ method, path }) => {
    const { pathname, searchParams } = new URL(path, "http://any");
    const isList = searchParams.get("list-type") === "2" && searchParams.get("prefix") === heads;
    const isHead = decodeURIComponent(pathname).startsWith(`/${context.bucket}/${heads}`) && searchParams.size === 0;
    return method === "GET" && (isList || isHead) ? undefined : "denied";
  };
  // One that has seen no head yet.
  const looker = storeOf(context);
  assert.equal(await namesOf(looker), [key]);
  for (const attempt of [() => load(looker), () => save(looker, "x"), () => listAll(looker, { versions: false })])
    assert.instance(await errorOf(attempt()), StoreError);
});

test("an archive of many parts comes back as it was", async (context) => {
  const content = randomBytes(2 * PART_BYTES + 1234).toString("latin1");
  await save(context.store, content);
  assert.is(await load(context.store), content);
  assert.is((await archivesIn(context)).length, 1);
});

test("an archive that is too large for one request is copied by parts", async (context) => {
  const { client, bucket } = context;
  const store = createS3Store({ client, bucket, prefix: "some/prefix", partBytes: PART_BYTES, copyBytes: PART_BYTES });
  const content = randomBytes(PART_BYTES + 1234).toString("latin1");
  const { metadata } = await save(store, content);
  const other = { tenantId: "other", workloadRef: "w" };
  const { revision: replaces } = await store.look(other, call);
  const adopted = { ...call, replaces, most: MOST, createdAt: "2026-11-22T00:00:00.000Z" };
  await store.adopt(other, { ...key, sha256: metadata.sha256 }, adopted);
  assert.is(await load(store, other), content);
});

test("a list of more than a thousand is whole, or an error", async (context) => {
  const { store, faults, server, bucket } = context;
  await save(store, "one");
  const { metadata } = (await listAll(store, { versions: false }))[0] ?? {};
  const made = Array.from({ length: 1000 }, (_, index) => `t${index}`);
  const { accessKeyId, secretAccessKey, endpoint, region } = server;
  const credentials = async () => ({ accessKeyId, secretAccessKey });
  const client = createS3Client({ endpoint, region, bucket, isPathStyle: true, credentials });
  const make = async (tenantId: string): Promise<void> => {
    const body = Buffer.from(JSON.stringify({ commit: tenantId, versions: [{ ...metadata, tenantId, blob: "none" }] }));
    const at = `some/prefix/heads/${tenantId}/${key.workloadRef}.json`;
    const headers = { "x-amz-meta-commit": tenantId };
    assert.is((await client.send({ method: "PUT", key: at, headers, body, signal: call.signal })).status, 200);
  };
  while (made.length > 0) await Promise.all(made.splice(0, 20).map(make));
  client.close();
  const listed = await listAll(store, { versions: false });
  assert.is(new Set(listed.map(({ tenantId }) => tenantId)).size, 1001);
  assert.is(listed.length, 1001);
  faults.decide = ({ path }) => (path.includes("start-after") ? "denied" : undefined);
  assert.instance(await errorOf(listAll(store, { versions: false })), StoreError);
});

test("what is replaced or deleted is erased, with what was kept", async (context) => {
  const { store } = context;
  await save(store, "one");
  await save(store, "two", key, { keep: "replaced" });
  await save(store, "three");
  assert.is((await archivesIn(context)).length, 2);
  await store.delete(key, call);
  assert.equal(await archivesIn(context), []);
});

test("a deletion that ends in the middle is gone on with, and nobody has files meanwhile", async (context) => {
  const { store, faults } = context;
  await save(store, "one");
  faults.decide = ({ method, path }) => (method === "DELETE" && path.includes("/archives/") ? "refused" : undefined);
  assert.instance(await errorOf(store.delete(key, call)), StoreError);
  assert.is((await store.look(key, call)).state, "none");
  faults.decide = () => undefined;
  assert.is(await store.delete(key, call), true);
  assert.equal(await archivesIn(context), []);
  assert.is(await store.delete(key, call), false);
});

test("an answer that is lost is found out, whichever it is", async (context) => {
  const { store, faults } = context;
  const large = randomBytes(PART_BYTES + 1000).toString("latin1");
  for (const content of ["small", large]) {
    for (let lost = 0; ; lost += 1) {
      await store.delete(key, call);
      await save(store, "before");
      let requests = 0;
      faults.decide = ({ method }) =>
        method !== "GET" && method !== "HEAD" && requests++ === lost ? "lost" : undefined;
      const { metadata } = await save(store, content, key, { keep: "replaced" });
      faults.decide = () => undefined;
      if (requests <= lost) break;
      assert.is(await load(store, key, metadata.sha256), content, `request ${lost}`);
      assert.is((await store.look(key, call)).versions.length, 1);
      assert.is((await archivesIn(context)).length, 2);
    }
  }
});

test("a write that arrives when its client has long gone on replaces nothing", async ({ store, faults }) => {
  await save(store, "before");
  let isFirst = true;
  faults.decide = ({ method, path }) => {
    if (method !== "PUT" || !path.includes("/heads/") || !isFirst) return undefined;
    isFirst = false;
    return "late";
  };
  await save(store, "first");
  await save(store, "second");
  await faults.settled();
  assert.is(await load(store), "second");
});

test("an archive that the head names stays, whatever its save was told", async (context) => {
  const { store, faults } = context;
  await save(store, "before");
  let isWritten = false;
  faults.decide = ({ method, path }) => {
    if (!path.includes("/heads/")) return undefined;
    if (isWritten) return "slowDown";
    isWritten = method === "PUT";
    return isWritten ? "failed" : undefined;
  };
  assert.instance(await errorOf(save(store, "after")), StoreError);
  faults.decide = () => undefined;
  assert.is(await load(store), "after");
});

test("an archive that was kept as a version before its save knew of its place stays", async (context) => {
  const { store, faults } = context;
  const { server, bucket } = context;
  const { accessKeyId, secretAccessKey, endpoint, region } = server;
  const credentials = async () => ({ accessKeyId, secretAccessKey });
  const client = createS3Client({ endpoint, region, bucket, isPathStyle: true, credentials });
  const other = createS3Store({ client, bucket, prefix: "some/prefix" });
  await save(store, "before");
  let writes = 0;
  faults.decide = async ({ method, path }) => {
    if (method !== "PUT" || !path.includes("/heads/")) return undefined;
    writes += 1;
    if (writes === 1) return "lost";
    await save(other, "next", key, { keep: "replaced" });
    return undefined;
  };
  assert.instance(await errorOf(save(store, "overtaken")), StoreConflict);
  client.close();
  const { versions } = await other.look(key, call);
  assert.is(await load(store), "next");
  assert.is(await load(store, key, versions[0]?.sha256), "overtaken");
});

test("credentials that have expired are asked for anew, once", async (context) => {
  const { server, faults, bucket } = context;
  const given: unknown[] = [];
  const credentials = async (stale?: unknown) => {
    given.push(stale);
    const { accessKeyId, secretAccessKey } = server;
    return { accessKeyId, secretAccessKey };
  };
  const { region } = server;
  const client = createS3Client({ endpoint: faults.endpoint, region, bucket, isPathStyle: true, credentials });
  const store = createS3Store({ client, bucket, prefix: "" });
  let isExpired = true;
  faults.decide = () => {
    const fault = isExpired ? "expired" : undefined;
    isExpired = false;
    return fault;
  };
  await save(store, "one");
  assert.ok(given[0] === undefined && given[1] !== undefined);
  faults.decide = () => "expired";
  assert.match(String(await errorOf(store.look(key, call))), /ExpiredToken/);
  client.close();
});

test("credentials that are wrong, and a bucket that is not there, are failures and no empty store", async (context) => {
  const { server, faults, bucket } = context;
  const wrong = async () => ({ accessKeyId: server.accessKeyId, secretAccessKey: "wrong" });
  const common = { endpoint: faults.endpoint, region: server.region, isPathStyle: true };
  const stranger = createS3Client({ ...common, bucket, credentials: wrong });
  const denied = await errorOf(createS3Store({ client: stranger, bucket, prefix: "" }).look(key, call));
  assert.ok(denied instanceof StoreError && !denied.isTransient, String(denied));
  const { accessKeyId, secretAccessKey } = server;
  const right = async () => ({ accessKeyId, secretAccessKey });
  const elsewhere = createS3Client({ ...common, bucket: "not-there", credentials: right });
  const store = createS3Store({ client: elsewhere, bucket: "not-there", prefix: "" });
  for (const attempt of [
    () => store.look(key, call),
    () => save(store, "x"),
    () => listAll(store, { versions: true }),
  ]) {
    assert.match(String(await errorOf(attempt())), /NoSuchBucket|not-there/);
  }
  for (const client of [stranger, elsewhere]) client.close();
});

test("a tenant and a workload take no more than they may, and other tenants as before", async ({ store }) => {
  const other = { tenantId: key.tenantId, workloadRef: "other" };
  const stranger = { tenantId: "stranger", workloadRef: key.workloadRef };
  const bytes = (count: number): string => "x".repeat(count);
  await save(store, bytes(300), other);
  const most = { history: 3, replaced: 3, tenantBytes: 1000 };
  await save(store, bytes(200), key, { most });
  await save(store, bytes(400), key, { most, keep: "history" });
  const asked = { ...call, keep: "history", most } as const;
  await store.checkRoom(key, { ...asked, sizeBytes: 700 });
  assert.instance(await errorOf(store.checkRoom(key, { ...asked, sizeBytes: 701 })), QuotaError);
  const refused = await errorOf(save(store, bytes(701), key, { most, keep: "history" }));
  assert.instance(refused, QuotaError);
  assert.match(
    String(refused),
    /it would take .* \(TENANCY_SNAPSHOT_TENANT_LIMIT, or snapshotMb of its quota\) for tenant "a\.b"/,
  );
  assert.equal([await load(store), (await store.look(key, call)).versions.length], [bytes(400), 1]);
  // What is history goes as far as it has to.
  await save(store, bytes(290), key, { most, keep: "history" });
  assert.equal(
    (await store.look(key, call)).versions.map(({ sizeBytes }) => sizeBytes),
    [400],
  );
  await save(store, bytes(5000), stranger, { most: { tenantBytes: 5000 } });
  const ofWorkload = { most: { history: 3, replaced: 3, workloadBytes: 6000 } };
  await save(store, bytes(700), key, { ...ofWorkload, keep: "replaced" });
  assert.equal(
    (await store.look(key, call)).versions.map(({ sizeBytes }) => sizeBytes),
    [290],
  );
  assert.instance(await errorOf(save(store, bytes(5500), stranger, ofWorkload)), QuotaError);
  assert.instance(await errorOf(store.checkRoom(stranger, { ...call, ...ofWorkload, sizeBytes: 5500 })), QuotaError);
  assert.equal((await store.usage(call)).workloads[key.workloadRef], { archives: 3, bytes: 5000 + 700 + 290 });
});

test("bytes that have changed since they were saved are never taken for the archive", async (context) => {
  const { store, client } = context;
  await save(store, "as it was saved");
  const [name = ""] = await archivesIn(context);
  for (const body of ["as it was SAVED", "cut", ""]) {
    await client.send({ method: "PUT", key: name, body: Buffer.from(body), signal: call.signal });
    const error = await errorOf(load(store));
    assert.ok(error instanceof ArchiveError || error instanceof StoreError || error instanceof NetworkError, body);
  }
});

test("the sweep erases what is old and its head does not name, nothing where the head is lost, and asks for no head that it knows", async (context) => {
  const { store, client, faults, folder, bucket } = context;
  const others = ["x", "y"].map((tenantId) => ({ tenantId, workloadRef: "w" }));
  for (const each of [key, ...others]) await save(store, `of ${each.tenantId}`, each);
  const { tenantId, workloadRef } = key;
  for (const of of [`${tenantId}/${workloadRef}`, "a.b/lost"]) {
    const name = `some/prefix/archives/${of}/${UNNAMED}`;
    await client.send({ method: "PUT", key: name, body: Buffer.from("x"), signal: call.signal });
  }
  await store.tidy(call);
  assert.is((await archivesIn(context)).length, 5, "they are young");
  const twoDaysAgo = new Date(Date.now() - 48 * 3_600_000);
  for (const name of await archivesIn(context))
    utimesSync(join(folder, "objects", bucket, name), twoDaysAgo, twoDaysAgo);
  let asked = 0;
  faults.decide = ({ method, path }) => {
    if (method === "GET" && path.includes("/heads/")) asked += 1;
    return undefined;
  };
  await store.tidy(call);
  const left = await archivesIn(context);
  assert.is(left.length, 4);
  assert.equal(
    left.filter((name) => name.endsWith(UNNAMED)),
    [`some/prefix/archives/a.b/lost/${UNNAMED}`],
  );
  assert.ok(asked >= 3 && asked <= 5, String(asked));
  asked = 0;
  await store.tidy(call);
  assert.is(asked, 0);
  for (const each of [key, ...others]) assert.is(await load(store, each), `of ${each.tenantId}`);
});

test("another store whose prefix is inside of this one's loses nothing by its sweep and its erasures", async (context) => {
  const { store, folder, bucket } = context;
  await save(store, "of the outer");
  const inner = ["archives", "heads", "contexts", "used"].map((name) => storeOf(context, `some/prefix/${name}`));
  // Lower-case letters, as a workload's name has them.
  const tenant = { tenantId: "tenant", workloadRef: "w" };
  for (const each of inner) {
    await each.check(call);
    await save(each, "of the inner", tenant);
    await each.touch([tenant], call);
  }
  const objects = join(folder, "objects", bucket);
  const twoDaysAgo = new Date(Date.now() - 48 * 3_600_000);
  for (const name of readdirSync(objects, { recursive: true, encoding: "utf8" }))
    utimesSync(join(objects, name), twoDaysAgo, twoDaysAgo);
  const namesNow = () => new Set(readdirSync(objects, { recursive: true, encoding: "utf8" }));
  const before = namesNow();
  await store.tidy(call);
  for (const workload of ["archives", "heads", "used"]) {
    await store.contexts.put(workload, Readable.from([Buffer.from("context")]), {
      ...{ ...call, mostBytes: 100, confirm: async () => undefined },
    });
    await store.contexts.erase(workload, call);
  }
  assert.equal(
    [...before].filter((name) => !namesNow().has(name)),
    [],
  );
  for (const each of inner) assert.is(await load(each, tenant), "of the inner");
  assert.is(await load(store), "of the outer");
});

test("the sweep ends uploads of archives that were never completed, and nobody else's", async (context) => {
  const { client, folder, bucket } = context;
  const [own, others] = [`archives/a.b/w/${UNNAMED}`, "backups/database"];
  for (const name of [own, others])
    await client.send({ method: "POST", key: name, query: { uploads: "" }, signal: call.signal });
  const uploads = async (): Promise<boolean[]> => {
    const { body } = await client.send({ method: "GET", query: { uploads: "" }, signal: call.signal });
    return [own, others].map((name) => body.toString("utf8").includes(`<Key>${name}</Key>`));
  };
  const objects = join(folder, "objects", bucket);
  const twoDaysAgo = new Date(Date.now() - 48 * 3_600_000);
  for (const name of readdirSync(objects, { recursive: true, encoding: "utf8" }))
    utimesSync(join(objects, name), twoDaysAgo, twoDaysAgo);
  assert.equal(await uploads(), [true, true]);
  await storeOf(context, "").tidy(call);
  assert.equal(await uploads(), [false, true]);
});

test("a head that names what is not its key's own is not believed", async (context) => {
  const { store, client } = context;
  const other = { tenantId: "other", workloadRef: "w" };
  await save(store, "mine");
  await save(store, "secret", other);
  const at = (tenantId: string, workloadRef: string) => `some/prefix/heads/${tenantId}/${workloadRef}.json`;
  const [own, foreign] = await Promise.all(
    [key, other].map(async ({ tenantId, workloadRef }) => {
      const { body } = await client.send({ method: "GET", key: at(tenantId, workloadRef), signal: call.signal });
      return JSON.parse(body.toString("utf8")) as { commit: string; versions: { blob: string }[] };
    }),
  );
  const [version] = foreign?.versions ?? [];
  const named = { ...version, ...key, blob: `../../other/w/${version?.blob}` };
  const headers = { "x-amz-meta-commit": own?.commit ?? "" };
  const body = Buffer.from(JSON.stringify({ ...own, versions: [named] }));
  await client.send({ method: "PUT", key: at(key.tenantId, key.workloadRef), headers, body, signal: call.signal });
  assert.instance(await errorOf(store.look(key, call)), Error);
  assert.instance(await errorOf(load(store)), Error);
});

test("a bucket that was copied without its objects' metadata has its files, and takes the next save", async (context) => {
  const { store, client } = context;
  await save(store, "before");
  const at = `some/prefix/heads/${key.tenantId}/${key.workloadRef}.json`;
  const { body } = await client.send({ method: "GET", key: at, signal: call.signal });
  await client.send({ method: "PUT", key: at, body, signal: call.signal });
  assert.is(await load(store), "before");
  await save(store, "after");
  const { headers } = await client.send({ method: "GET", key: at, signal: call.signal });
  assert.type(headers["x-amz-meta-commit"], "string");
  assert.is(await load(store), "after");
});

test("a head that cannot be read keeps nobody else from a save, a list and a sweep, and its archives stay", async (context) => {
  const { store, client, folder, bucket } = context;
  const wrong = { tenantId: "wrong", workloadRef: key.workloadRef };
  await save(store, "of the wrong one", wrong);
  const at = `some/prefix/heads/${wrong.tenantId}/${wrong.workloadRef}.json`;
  await client.send({ method: "PUT", key: at, body: Buffer.from("{}"), signal: call.signal });
  await save(store, "of another", key, { most: { tenantBytes: 100, workloadBytes: 100 } });
  const listed = await listAll(store, { versions: true });
  const known = listed.map(({ tenantId, metadata }) => `${tenantId} ${metadata !== undefined}`);
  assert.equal(known.sort(), [`${key.tenantId} true`, "wrong false"]);
  const twoDaysAgo = new Date(Date.now() - 48 * 3_600_000);
  for (const name of await archivesIn(context))
    utimesSync(join(folder, "objects", bucket, name), twoDaysAgo, twoDaysAgo);
  await store.tidy(call);
  assert.is((await archivesIn(context)).length, 2);
  assert.instance(await errorOf(store.look(wrong, call)), ArchiveError);
});

test("a clock that is ahead deletes nothing that is in use, and nothing that is being saved", async (context) => {
  const { client, bucket, store } = context;
  const ahead: Clock = { ...systemClock, now: () => systemClock.now() + 48 * 3_600_000 };
  const early = createS3Store({ client, bucket, prefix: "some/prefix", partBytes: PART_BYTES, clock: ahead });
  await save(store, "one");
  assert.is(await early.delete(key, { ...call, unusedForMs: 3_600_000 }), false);
  const { revision: replaces } = await store.look(key, call);
  async function* slow(): AsyncGenerator<Uint8Array> {
    yield randomBytes(PART_BYTES + 1000);
    await early.tidy(call);
    yield Buffer.from("the end");
  }
  await save(store, slow(), key, { replaces });
  assert.ok((await load(store))?.endsWith("the end"));
  await client.send({
    method: "PUT",
    key: `some/prefix/archives/a.b/c.tar.gz/${UNNAMED}`,
    body: Buffer.from("x"),
    ...call,
  });
  await early.tidy(call);
  assert.is((await archivesIn(context)).length, 2);
});

test("a store without its mark is not saved to where archives were seen", async (context) => {
  assert.is((await context.store.look(key, call)).state, "unmarked");
  await context.store.check(call);
  await save(context.store, "one");
  context.isMarked = true;
  await context.store.check(call);
  const other = storeOf(context, "another/prefix");
  assert.is((await other.look(key, call)).state, "unmarked");
  for (const attempt of [() => save(other, "one"), () => other.check(call)]) {
    const error = await errorOf(attempt());
    assert.ok(error instanceof StoreError && !error.isTransient, String(error));
    assert.match(error.message, /under another\/prefix: it is empty, but archives were kept/);
  }
});

test("a store whose mark goes while it is in use is no empty store", async (context) => {
  const { store, client } = context;
  await save(store, "one");
  await store.delete(key, call);
  assert.is((await store.look(key, call)).state, "none");
  await client.send({ method: "DELETE", key: "some/prefix/marked", signal: call.signal });
  const stranger = { tenantId: "stranger", workloadRef: "w" };
  assert.is((await store.look(stranger, call)).state, "unmarked");
});

test("nothing is written to a server that takes no notice of conditions", async (context) => {
  const { faults } = context;
  const store = storeOf(context);
  const writes: string[] = [];
  faults.decide = ({ method, path, headers }) => {
    if (method === "PUT" && !path.includes("/probe/")) writes.push(path);
    return "if-match" in headers ? "pretended" : undefined;
  };
  for (const attempt of [() => store.check(call), () => save(store, "one")]) {
    assert.match(String(await errorOf(attempt())), /ignores If-Match/);
  }
  assert.equal(writes, []);
  faults.decide = () => undefined;
  await save(store, "one");
});

const FAULTS: readonly ObjectFault[] = ["refused", "slowDown", "lost", "failed", "late", "cut", "expired", "slow"];

test("under any faults a call has done what it says, or leaves what was there", async (context) => {
  const { store, faults } = context;
  const digest = (content: string): string => createHash("sha256").update(content).digest("hex").slice(0, 8);
  let newest: string | undefined;
  const outcomes = { done: 0, failed: 0 };
  // Until there was each fault, which chance may put off.
  for (let round = 0; round < 60 || (faults.counts.size < FAULTS.length && round < 600); round += 1) {
    faults.decide = () => (Math.random() < 0.2 ? FAULTS[Math.floor(Math.random() * FAULTS.length)] : undefined);
    const size = Math.random() < 0.1 ? PART_BYTES + 5000 : 1 + Math.floor(Math.random() * 20_000);
    const content = randomBytes(size).toString("latin1");
    const isDeletion = newest !== undefined && Math.random() < 0.2;
    const act = isDeletion
      ? store.delete(key, call)
      : save(store, content, key, { keep: Math.random() < 0.5 ? "replaced" : undefined });
    const error = await errorOf(act);
    if (error !== undefined)
      assert.ok(
        [StoreError, NetworkError, StoreConflict].some((kind) => error instanceof kind),
        String(error),
      );
    faults.decide = () => undefined;
    await faults.settled();
    const found = await load(store);
    const after = isDeletion ? undefined : content;
    const possible = error === undefined ? [after] : [newest, after];
    const shown = (one: string | undefined): string => (one === undefined ? "none" : digest(one));
    assert.ok(
      possible.includes(found),
      `round ${round}: ${shown(found)}, not ${possible.map(shown).join(" or ")}: ${error}`,
    );
    for (const { sha256 } of (await store.look(key, call)).versions) await load(store, key, sha256);
    newest = found;
    outcomes[error === undefined ? "done" : "failed"] += 1;
  }
  assert.ok(outcomes.done > 10, JSON.stringify(outcomes));
  assert.is(faults.counts.size, FAULTS.length);
});

test.run();
