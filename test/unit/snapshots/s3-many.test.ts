// @limit 300
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { eachInPages, type PageFilter, type StorePage } from "../../../crds/snapshots/store-pages.ts";
import { type SimulatedS3, simulatedS3Store, startSimulatedS3 } from "./simulated-s3.ts";
import { call, key, save } from "./store-contract.ts";

const test = suite<{ server: SimulatedS3; store: SnapshotStore }>("many archives in object storage");
const BLOB = "20261121T120000Z-0123456789abcdef.tar.gz";
const commit = "c".repeat(32);
const empty = Buffer.from(JSON.stringify({ commit, versions: [] }));

test.before.each(async (context) => {
  context.server = await startSimulatedS3();
  const store = simulatedS3Store(context.server);
  Object.assign(context, { store });
});
test.after.each(async ({ server, store }) => {
  store.close();
  await server.close();
});

function headOf(tenantId: string): Buffer {
  const metadata = {
    ...{ sha256: "a".repeat(64), sizeBytes: 10, tenantId, workloadRef: "w", uid: 1, gid: 1 },
    ...{ createdAt: "2026-11-21T12:00:00.000Z", entries: 1, contentBytes: 1, overlayDirs: ["/data"], blob: BLOB },
  };
  return Buffer.from(JSON.stringify({ commit, versions: [metadata] }));
}

/** Puts heads there. @param options.erased every so many are of keys whose archives were erased */
function putHeads(
  { objects }: SimulatedS3,
  { count, erased, head = headOf }: { count: number; erased: number; head?: (tenantId: string) => Buffer },
): void {
  for (let index = 0; index < count; index += 1) {
    const tenantId = `t${index}`;
    const body = index % erased === 0 ? empty : head(tenantId);
    objects.set(`heads/${tenantId}/w.json`, { body, etag: `"${index}"`, commit });
  }
}

/** What was asked for since the last time, as how many requests of a kind. */
function asked(server: SimulatedS3): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { method, key: name, query } of server.asked.splice(0)) {
    const what = name === "" ? `list ${query.get("prefix")}` : `${method} ${name.split("/")[0]}`;
    counts[what] = (counts[what] ?? 0) + 1;
  }
  return counts;
}

async function countOf(read: (page: PageFilter) => Promise<StorePage<SnapshotKey>>, limit = 1000): Promise<number> {
  let count = 0;
  for await (const _ of eachInPages(read, { limit })) count += 1;
  return count;
}

test("a million keys are named by a list of a thousand requests, and no head is read", async ({ server, store }) => {
  const same = headOf("t1");
  putHeads(server, { count: 100_000, erased: 10, head: () => same });
  assert.is(await countOf((page) => store.names(page, call)), 90_000);
  assert.equal(asked(server), { "list heads/": 100 });
});

test("when keys were last in use takes two lists, and no head is read", async ({ server, store }) => {
  putHeads(server, { count: 20_000, erased: 4 });
  server.objects.set("used/t1/w", { body: Buffer.alloc(0), etag: '"u"', commit: "" });
  assert.is(await countOf((page) => store.uses(page, call)), 15_000);
  const { "list heads/": heads = 0, "list used/": used = 0, ...others } = asked(server);
  assert.equal([heads, used <= 40, others], [20, true, {}]);
});

test("a second list of more heads than are remembered reads a few of them, and erased ones are never read", async ({
  server,
}) => {
  const store = simulatedS3Store(server, { cachedHeads: 1000 });
  putHeads(server, { count: 1020, erased: 100 });
  const list = () => countOf((page) => store.list({ ...page, versions: true }, call));
  assert.is(await list(), 1009);
  assert.is(asked(server)["GET heads"], 1009);
  assert.is(await list(), 1009);
  const again = asked(server)["GET heads"] ?? 0;
  assert.ok(again > 0 && again < 200, `${again} heads were read again`);
  store.close();
});

test("what archives take is in the list of archives: no head is read, and no archive is counted before its head names it", async ({
  server,
  store,
}) => {
  for (let index = 0; index < 5000; index += 1) {
    const body = Buffer.from("ten bytes.");
    server.objects.set(`archives/t${index}/w/${BLOB}`, { body, etag: `"${index}"`, commit: "" });
  }
  server.objects.set("archives/t1/w/notes.txt", { body: Buffer.from("no archive"), etag: '"n"', commit: "" });
  const kept = { archives: 5000, bytes: 50_000 };
  assert.equal(await store.usage(call), { ...kept, workloads: { w: kept } });
  assert.equal(asked(server), { "list archives/": 6 });
  const most = { workloadBytes: 100_000 };
  await save(store, "x".repeat(100), { ...key, workloadRef: "w" }, { most });
  await save(store, "x".repeat(50_000), { ...key, workloadRef: "w" }, { most });
  const after = { archives: 5001, bytes: 100_000 };
  assert.equal(await store.usage(call), { ...after, workloads: { w: after } });
  assert.is(asked(server)["list archives/"], undefined);
});

test("a sweep reads the heads of keys that have an old archive beside another, and erases what they do not name", async ({
  server,
  store,
}) => {
  const at = (daysAgo: number) => new Date(Date.now() - daysAgo * 86_400_000).toISOString();
  const left = "20261120T120000Z-fedcba9876543210.tar.gz";
  putHeads(server, { count: 3000, erased: 1000 });
  for (const { key: name } of [...server.objects.keys()].map((key) => ({ key }))) {
    const [, tenantId = ""] = name.split("/");
    server.objects.set(`archives/${tenantId}/w/${BLOB}`, {
      body: Buffer.from("x"),
      etag: '"x"',
      commit: "",
      at: at(2),
    });
  }
  for (const tenantId of ["t5", "t6"]) {
    const body = Buffer.from("left");
    server.objects.set(`archives/${tenantId}/w/${left}`, { body, etag: '"l"', commit: "", at: at(2) });
  }
  for (const [name, object] of server.objects) {
    if (name.startsWith("heads/")) server.objects.set(name, { ...object, at: at(2) });
  }
  await store.tidy(call);
  const { "GET heads": reads = 0, "DELETE archives": erased } = asked(server);
  // Those of t0, t1000 and t2000 were erased.
  assert.equal([reads <= 8, erased], [true, 5]);
  const there = (tenantId: string, blob: string) => server.objects.has(`archives/${tenantId}/w/${blob}`);
  assert.equal(
    [there("t5", left), there("t6", left), there("t5", BLOB), there("t0", BLOB)],
    [false, false, true, false],
  );
});

test("what a deletion has left of many archives is erased, however soon it came after the last one", async ({
  server,
  store,
}) => {
  const at = new Date(Date.now() - 2 * 86_400_000).toISOString();
  for (const count of [1, 4, 5, 6, 9]) {
    const blobs = Array.from({ length: count }, (_, index) => BLOB.replace(/^2026/, String(2000 + index)));
    const body = Buffer.from(JSON.stringify({ commit, versions: [], erase: blobs }));
    server.objects.set(`heads/t${count}/w.json`, { body, etag: '"h"', commit, at });
    server.objects.set(`archives/t${count}/w/${blobs[0]}`, { body: Buffer.from("x"), etag: '"x"', commit: "", at });
  }
  assert.is(await countOf((page) => store.names(page, call)), 0, "names");
  await store.tidy(call);
  assert.equal(
    [...server.objects.keys()].filter((name) => name.startsWith("archives/")),
    [],
  );
});

test("a list of one reads past many erased ones in a few requests", async ({ server, store }) => {
  putHeads(server, { count: 1000, erased: 1 });
  server.objects.set("heads/u/w.json", { body: headOf("u"), etag: '"u"', commit });
  assert.equal((await store.names({ limit: 1 }, call)).items, [{ tenantId: "u", workloadRef: "w" }]);
  assert.equal(asked(server), { "list heads/": 11 });
});

test.run();
