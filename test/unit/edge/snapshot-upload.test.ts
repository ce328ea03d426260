// @runtimes bun node deno
import { gunzipSync, gzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../../crds/client/clock.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { eventually } from "../../eventually.ts";
import { rawEntry, rawTar, tarEnd } from "../archive/raw-tar.ts";
import { manualClock } from "../manual-clock.ts";
import { call, load, save } from "../snapshots/store-contract.ts";
import { type ServedStore, serveStore } from "../snapshots/store-server.ts";
import { type SnapshotsFolder, snapshotsFolder } from "./snapshots-folder.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

interface Context {
  volume: SnapshotsFolder;
  served: ServedStore;
  edge: TestEdge;
}

const test = suite<Context>("uploads of a snapshot");
const key: SnapshotKey = { tenantId: "a", workloadRef: "app" };
const PATH = "/api/v1/tenants/a/snapshots/app/archive";
const tar = rawTar([
  { name: "data/", type: "5", mode: 0o755 },
  { name: "data/file", content: Buffer.from("hello") },
]);

test.before.each(async (context) => {
  context.volume = snapshotsFolder();
  context.served = await serveStore(context.volume.path);
  context.edge = testEdge({ store: context.served.store, clock: systemClock });
  context.edge.cluster.addSnapshots();
  context.edge.cluster.addWorkload("app", { filesystem: { overlayDirs: ["/data"] } });
});
test.after.each(async ({ served, volume }) => {
  await served.close();
  volume.remove();
});

async function put(
  { edge }: Context,
  body: Uint8Array | ReadableStream<Uint8Array>,
  query = "",
): Promise<{ status: number; json: Record<string, unknown>; error: string }> {
  const init = { method: "PUT", body, duplex: "half" } as RequestInit;
  const response = await edge.handler(new Request(`http://edge.test${PATH}${query}`, init), {});
  const json = (await response.json()) as Record<string, unknown>;
  return { status: response.status, json, error: String(json.error ?? "") };
}

/** The bytes of the newest archive, unpacked. */
async function unpacked({ served: { store } }: Context): Promise<Buffer | undefined> {
  const { newest } = await store.look(key, call);
  const opened = newest && (await store.open(key, newest.sha256, call));
  if (opened === undefined) return undefined;
  const parts: Uint8Array[] = [];
  for await (const part of opened.content) parts.push(part);
  return gunzipSync(Buffer.concat(parts));
}

test("a tar, compressed or not, is what was saved last", async (context) => {
  for (const [body, query] of [
    [tar, ""],
    [gzipSync(tar), "?uid=1000&gid=2000"],
  ] as const) {
    await context.served.store.delete(key, call);
    const { status, json } = await put(context, body, query);
    assert.is(status, 201, JSON.stringify(json));
    assert.equal([json.tenantId, json.newest], ["a", true]);
    assert.ok((await unpacked(context))?.includes("hello"));
    const { newest } = await context.served.store.look(key, call);
    assert.equal([newest?.entries, newest?.overlayDirs], [2, ["/data"]]);
    assert.equal([newest?.uid, newest?.gid], query === "" ? [65532, 65532] : [1000, 2000]);
  }
});

test("names as POSIX archives have them are taken, and written as they are restored", async (context) => {
  // Its length in two digits counts itself, the space and the end of the line.
  const record = (text: string): string => `${text.length + 4} ${text}\n`;
  const long = `data/${"x".repeat(60)}`;
  const pax = { name: "PaxHeaders/x", type: "x", content: Buffer.from(record(`path=${long}`)) };
  const body = Buffer.concat([rawEntry(pax), rawEntry({ name: "data/short", content: Buffer.from("of pax") }), tarEnd]);
  const { status, error } = await put(context, body);
  assert.is(status, 201, error);
  const written = await unpacked(context);
  assert.ok(written?.includes(long) && !written.includes("PaxHeaders") && !written.includes("data/short"));
});

test("what is there has to be named, and stays as a version", async (context) => {
  const { store } = context.served;
  const { metadata } = await save(store, "before", key);
  const refused = await put(context, tar);
  assert.is(refused.status, 409);
  assert.match(refused.error, "name it in replaces");
  assert.is((await put(context, tar, `?replaces=${"0".repeat(16)}`)).status, 409);
  assert.is(await load(store, key), "before");
  assert.is((await put(context, tar, `?replaces=${metadata.sha256}`)).status, 201);
  const { newest, versions } = await store.look(key, call);
  assert.equal(
    versions.map(({ sha256, kept }) => [sha256, kept]),
    [[metadata.sha256, "replaced"]],
  );
  assert.equal([newest?.uid, newest?.gid], [1000, 2000], "as those before");
});

test("the first one waits for the volume that the operator makes", async (context) => {
  const clock = manualClock();
  const edge = testEdge({ store: context.served.store, clock });
  edge.cluster.addWorkload("app", { filesystem: { overlayDirs: ["/data"] } });
  const first = put({ ...context, edge }, tar);
  await eventually(() => clock.nextIn() === 500);
  edge.cluster.addSnapshots();
  await clock.runNext();
  const { status, error } = await first;
  assert.is(status, 201, error);
});

test("a workload with a directory that an old API server let in takes none", async (context) => {
  context.edge.cluster.addWorkload("app", { filesystem: { overlayDirs: ["/data/../etc"] } });
  const { status, error } = await put(context, tar);
  assert.is(status, 409);
  assert.match(error, /is not valid: spec\.filesystem\.overlayDirs\[0\]: must be an absolute path/);
});

test("hostile and broken archives are refused, and nothing is stored", async (context) => {
  for (const [body, status, says] of [
    [rawTar([{ name: "data/../etc/passwd" }]), 400, "has no plain path"],
    [rawTar([{ name: "etc/passwd" }]), 400, "must be an archive of /data"],
    [rawTar([{ name: "/data/file" }]), 400, "must be an archive of /data"],
    [rawTar([{ name: "data/device", type: "3" }]), 400, "must be an archive of /data"],
    [
      rawTar([{ name: "data/link", type: "1", target: "data/file" }]),
      400,
      'the hard link "data/link" points at "data/file", which is not before it in the archive',
    ],
    [
      rawTar([{ name: "data/file" }, { name: "data/file/below" }]),
      400,
      'entry "data/file/below" lies below "data/file", a file',
    ],
    [tar.subarray(0, tar.length - 1024), 400, "must be an archive of /data"],
    [gzipSync(tar).subarray(0, 60), 400, "its compression is damaged or cut off"],
    [Buffer.from("no archive at all"), 400, "must be an archive of /data"],
    [Buffer.alloc(0), 400, "must be an archive of /data"],
    [Buffer.alloc(1024 * 1024 + 1), 413, "body"],
  ] as const) {
    const answer = await put(context, body);
    assert.is(answer.status, status, answer.error);
    assert.match(answer.error, says);
    assert.is(await unpacked(context), undefined);
  }
});

test("a bomb is stopped by what fits on the workload's disk", async (context) => {
  const edge = testEdge({ store: context.served.store, snapshotLimitBytes: 4 * 1024 * 1024, clock: systemClock });
  edge.cluster.addSnapshots();
  edge.cluster.addWorkload("app", {
    ...{ filesystem: { overlayDirs: ["/data"] }, resources: { vcpus: 1, memoryMb: 64, diskGb: 0.125 } },
  });
  // Zeros, of which each MiB is a KiB.
  const piece = gzipSync(Buffer.alloc(1024 * 1024));
  const header = gzipSync(rawEntry({ name: "data/zeros", size: 2 * 1024 ** 3 }));
  const body = Buffer.concat([header, ...Array.from({ length: 200 }, () => piece)]);
  const { status, error } = await put({ ...context, edge }, body);
  assert.is(status, 413, error);
  assert.is(await unpacked(context), undefined);
});

test("what is stored is no larger than an archive may be, however tightly it came", async (context) => {
  const edge = testEdge({ store: context.served.store, snapshotLimitBytes: 8 * 1024, clock: systemClock });
  edge.cluster.addSnapshots();
  edge.cluster.addWorkload("app", { filesystem: { overlayDirs: ["/data"] } });
  const body = gzipSync(rawTar([{ name: "data/zeros", content: Buffer.alloc(4 * 1024 * 1024) }]), { level: 9 });
  assert.ok(body.length < 8 * 1024);
  const { status, error } = await put({ ...context, edge }, body);
  assert.is(status, 413, error);
  assert.match(error, /TENANCY_SNAPSHOT_LIMIT/);
  assert.is(await unpacked(context), undefined);
});

test("a tenant's quota limits what it may upload, and shows what it has saved", async (context) => {
  let snapshotMb = 0;
  const quotas = { current: () => ({ of: () => ({ limits: { snapshotMb } }) }), problem: () => undefined };
  const edge = testEdge({ store: context.served.store, clock: systemClock, quotas });
  edge.cluster.addSnapshots();
  edge.cluster.addWorkload("app", { filesystem: { overlayDirs: ["/data"] } });
  const refused = await put({ ...context, edge }, tar);
  assert.is(refused.status, 409);
  assert.match(refused.error, /snapshotMb of its quota/);
  snapshotMb = 1;
  assert.is((await put({ ...context, edge }, tar)).status, 201);
  const { json } = await edge.call("GET /api/v1/tenants/a/limits");
  assert.equal(json, { tenantId: "a", limits: { snapshotMb: { limit: 1, used: 1 } } });
});

test("a tenant with a claim, a workload without files and ids that cannot be are refused before the body", async (context) => {
  const { edge } = context;
  edge.cluster.addClaim({ ...key, status: { phase: "Active" } });
  assert.is((await put(context, tar)).status, 409);
  edge.cluster.removeClaim("claim-a-app");
  for (const query of ["?uid=-1", "?gid=2147483648", "?uid=01", "?replaces=x"]) {
    assert.is((await put(context, tar, query)).status, 400, query);
  }
  edge.cluster.addWorkload("app", { filesystem: { overlayDirs: [] } });
  const { status, error } = await put(context, tar);
  assert.is(status, 409);
  assert.match(error, "saves no files");
  assert.is(await unpacked(context), undefined);
});

test.run();
