import { test } from "uvu";
import * as assert from "uvu/assert";
import type { S3Answer, S3Request } from "../../../crds/snapshots/s3/s3-client.ts";
import { createS3Commits } from "../../../crds/snapshots/s3/s3-commits.ts";
import { createS3Heads, type S3Version } from "../../../crds/snapshots/s3/s3-heads.ts";
import { s3Layout } from "../../../crds/snapshots/s3/s3-layout.ts";
import type { S3Store } from "../../../crds/snapshots/s3/s3-store.ts";
import { StoreConflict } from "../../../crds/snapshots/snapshot-store.ts";
import { hurriedClock } from "../manual-clock.ts";
import { bucketOf, type SimulatedS3, simulatedS3Store, startSimulatedS3 } from "./simulated-s3.ts";
import { call, key, load, MOST, save } from "./store-contract.ts";

test("createS3Commits: an archive stays while a write of the head that names it may still be made", async () => {
  const layout = s3Layout("");
  const [at, blob] = [layout.head(key), "20261122T000000Z-0123456789abcdef.tar.gz"];
  const archive = layout.archive(key, blob);
  const objects = new Map<string, { body: Buffer; commit: string }>([
    [archive, { body: Buffer.from("x"), commit: "" }],
  ]);
  const answer = (status: number, given: Partial<S3Answer> = {}): S3Answer => ({
    ...{ status, etag: "", headers: {}, body: Buffer.alloc(0), code: "", isRepeated: true },
    ...given,
  });
  let late = (): void => undefined;
  async function send({ method, key: name = "", body = Buffer.alloc(0), headers = {} }: S3Request): Promise<S3Answer> {
    if (method === "PUT") {
      late = () => void objects.set(name, { body, commit: headers["x-amz-meta-commit"] ?? "" });
      // A server says so of a try while an earlier one of the same write is under way.
      return answer(409, { code: "ConditionalRequestConflict" });
    }
    if (method === "DELETE") return answer(objects.delete(name) ? 204 : 404);
    const found = objects.get(name);
    if (found === undefined) return answer(404, { code: "NoSuchKey" });
    return answer(200, { body: found.body, etag: `"${found.commit}"`, headers: { "x-amz-meta-commit": found.commit } });
  }
  const bucket = bucketOf(send);
  const heads = createS3Heads({ bucket, layout, clock: hurriedClock });
  const usage = {
    all: async () => ({ archives: 0, bytes: 0, workloads: {} }),
    others: async () => ({ ofTenant: 0, ofWorkload: 0 }),
    note: () => undefined,
    whileWriting: async <T>(_: string, work: () => Promise<T>) => await work(),
  };
  const { commit } = createS3Commits({ bucket, layout, heads, usage });
  const described = {
    uid: 1,
    gid: 1,
    entries: 1,
    contentBytes: 1,
    overlayDirs: ["/data"],
    createdAt: "2026-11-22T00:00:00.000Z",
  };
  const describe = (): S3Version => ({ ...key, ...described, sha256: "0".repeat(64), sizeBytes: 1, blob });
  const { revision: replaces } = await heads.read(key, call.signal);
  const failed = await commit(key, { blob, isOwn: true, describe }, { ...call, replaces, most: MOST }).catch(
    (error) => error,
  );
  assert.instance(failed, StoreConflict);
  late();
  const { head } = await heads.read(key, call.signal);
  assert.equal([head?.versions[0]?.blob, objects.has(archive), objects.has(at)], [blob, true, true]);
});

async function withStore(work: (store: S3Store, archives: () => string[], server: SimulatedS3) => Promise<void>) {
  const server = await startSimulatedS3();
  const store = simulatedS3Store(server);
  try {
    await work(store, () => [...server.objects.keys()].filter((name) => name.startsWith("archives/")), server);
  } finally {
    store.close();
    await server.close();
  }
}

async function goBack(store: S3Store, given: { content: string; replaces?: string }) {
  const { revision, versions } = await store.look(key, call);
  const contents = await Promise.all(versions.map(({ sha256 }) => load(store, key, sha256)));
  const { sha256 = "" } = versions[contents.indexOf(given.content)] ?? {};
  const { replaces = revision } = given;
  const createdAt = "2026-11-22T00:00:00.000Z";
  return await store.adopt(key, { ...key, sha256 }, { ...call, replaces, keep: "replaced", most: MOST, createdAt });
}

test("createS3Commits: a rollback stores nothing, and what it names twice stays until nothing names it", () =>
  withStore(async (store, archives) => {
    for (const content of ["of 1", "of 2"]) await save(store, content, key, { keep: "replaced" });
    const before = archives();
    assert.is(before.length, 2);
    await goBack(store, { content: "of 1" });
    await goBack(store, { content: "of 2" });
    await goBack(store, { content: "of 1" });
    assert.equal(archives(), before);
    // The one that is newest goes, and is still a version.
    await save(store, "of 3", key);
    const { versions } = await store.look(key, call);
    const contents = await Promise.all(versions.map(({ sha256 }) => load(store, key, sha256)));
    assert.equal(contents.sort(), ["of 1", "of 2"]);
    await store.tidy(call);
    assert.is(archives().length, 3);
    await goBack(store, { content: "of 1" });
    await store.delete(key, call);
    assert.equal(archives(), []);
  }));

test("createS3Commits: a rollback that fails erases nothing", () =>
  withStore(async (store, archives, server) => {
    const { revision: replaces } = await save(store, "of 1");
    await save(store, "of 2", key, { keep: "replaced" });
    const before = archives();
    const stale = await goBack(store, { content: "of 1", replaces }).catch((error: unknown) => error);
    assert.instance(stale, StoreConflict);
    // Another is first between its look and its write.
    let isFirst = true;
    server.decide = ({ method, key: name }) => {
      if (method !== "PUT" || !name.startsWith("heads/") || !isFirst) return undefined;
      isFirst = false;
      const { body } = server.objects.get(name) ?? { body: Buffer.alloc(0) };
      const head = { ...JSON.parse(body.toString("utf8")), commit: "another" };
      server.objects.set(name, { body: Buffer.from(JSON.stringify(head)), etag: '"another"', commit: "another" });
      return undefined;
    };
    const late = await goBack(store, { content: "of 1" }).catch((error: unknown) => error);
    assert.instance(late, StoreConflict);
    assert.equal(archives(), before);
    assert.is(await load(store), "of 2");
  }));

test("createS3Commits: an erasure that goes on with one that was ended refuses the saves from before it too", () =>
  withStore(async (store, archives, server) => {
    await save(store, "old");
    const ended = new AbortController();
    server.decide = ({ method }) => {
      if (method !== "DELETE") return undefined;
      ended.abort(new Error("the edge was killed"));
      return { body: "", isDone: false };
    };
    assert.match(String(await store.delete(key, { ...call, signal: ended.signal }).catch(String)), "was killed");
    const { revision: replaces } = await store.look(key, call);
    let late: unknown;
    server.decide = async ({ method }) => {
      if (method !== "DELETE") return undefined;
      server.decide = () => undefined;
      late = await save(store, "late", key, { replaces }).catch((error: unknown) => error);
      return undefined;
    };
    assert.is(await store.delete(key, call), true);
    assert.instance(late, StoreConflict);
    assert.equal([(await store.look(key, call)).state, archives()], ["none", []]);
  }));

test("createS3Commits: what a rollback would name has to be there", () =>
  withStore(async (store, archives, server) => {
    for (const content of ["of 1", "of 2"]) await save(store, content, key, { keep: "replaced" });
    const [first = ""] = archives();
    const { versions } = await store.look(key, call);
    server.objects.delete(first);
    const { revision: replaces } = await store.look(key, call);
    const back = { ...key, sha256: versions[0]?.sha256 ?? "" };
    const createdAt = "2026-11-22T00:00:00.000Z";
    assert.is(await store.adopt(key, back, { ...call, replaces, keep: "replaced", most: MOST, createdAt }), undefined);
    assert.is(await load(store), "of 2");
  }));

test("createS3Commits: the same bytes once more are one object, the one that was just written", () =>
  withStore(async (store, archives) => {
    for (const content of ["of 1", "of 2"]) await save(store, content, key, { keep: "replaced" });
    const [first = ""] = archives();
    await save(store, "of 1", key, { keep: "replaced" });
    assert.equal([archives().length, archives().includes(first)], [2, false]);
    const { newest, versions } = await store.look(key, call);
    for (const { sha256 } of versions) assert.ok((await load(store, key, sha256))?.startsWith("of "));
    assert.equal([await load(store), newest?.sizeBytes], ["of 1", 4]);
  }));

test.run();
