// @runtimes bun node deno
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Callback, suite } from "uvu";
import * as assert from "uvu/assert";
import { sandboxToKeep } from "../../../crds/claims/kept-sandbox.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { active } from "../edge/claim-calls.ts";
import { type SnapshotsFolder, snapshotsFolder } from "../edge/snapshots-folder.ts";
import { type TestEdge, testEdge } from "../edge/test-edge.ts";
import { call, MOST, pieces, save } from "../snapshots/store-contract.ts";
import { isOverVolume, type ServedStore, serveStore } from "../snapshots/store-server.ts";
import { ask, keyOf, ROOT } from "./sandbox-calls.ts";

interface Context {
  volume: SnapshotsFolder;
  served: ServedStore;
  edge: TestEdge;
  /** Calls of the store's list. */
  reads: number;
}

const test = suite<Context>("GET /e2b/v2/sandboxes");
/** Of what is done to the volume's own files. */
const testOfVolume: (name: string, run: Callback<Context>) => void = isOverVolume ? test : () => undefined;

test.before.each(async (context) => {
  context.volume = snapshotsFolder();
  context.served = await serveStore(context.volume.path);
  context.reads = 0;
  const { store } = context.served;
  const counting: SnapshotStore = Object.assign(Object.create(store), {
    list(...given: Parameters<SnapshotStore["list"]>) {
      context.reads += 1;
      return store.list(...given);
    },
  });
  context.edge = testEdge({ apiKey: ROOT, hasKeys: true, store: counting });
  context.edge.cluster.addSnapshots();
  context.edge.cluster.addWorkload("app");
  context.edge.cluster.addWorkload("web");
});
test.after.each(async ({ served, volume }) => {
  await served.close();
  volume.remove();
});

function addRunning(
  edge: TestEdge,
  tenantId: string,
  more: { at?: number; metadata?: object; workloadRef?: string } = {},
) {
  const { at = 0, metadata = {}, workloadRef = "app" } = more;
  const createdAt = `2026-01-01T00:00:${String(at).padStart(2, "0")}Z`;
  const status = { ...active, instanceId: `inst-${tenantId}` };
  const by = { kind: "root", id: "root", ref: "root" };
  const text = JSON.stringify({ metadata, by, autoPause: false, made: true });
  const annotations = { [annotation.e2b]: text };
  const { namespace } = edge.cluster;
  edge.cluster.add(claims, {
    metadata: { name: `claim-${tenantId}-${workloadRef}`, namespace, creationTimestamp: createdAt, annotations },
    spec: { tenantId, workloadRef, resume: false },
    status,
  });
}

interface Listed {
  readonly sandboxID: string;
  readonly state: string;
  readonly metadata: Record<string, string>;
}

/** All pages, each as `id state`. */
async function pages(edge: TestEdge, query = "", key = ROOT): Promise<string[][]> {
  const all: string[][] = [];
  let token: string | undefined;
  do {
    const more = token === undefined ? "" : `&nextToken=${token}`;
    const answer = await ask(edge, `GET /v2/sandboxes?${query}${more}`, { key });
    assert.is(answer.status, 200, answer.text);
    all.push((answer.json as Listed[]).map(({ sandboxID, state }) => `${sandboxID.replace("app--", "")} ${state}`));
    token = answer.headers.get("x-next-token") ?? undefined;
  } while (token !== undefined);
  return all;
}

test("running sandboxes come by their start, in pages that miss none and repeat none", async ({ edge }) => {
  for (const [tenantId, at] of [
    ["c", 3],
    ["a", 1],
    ["d", 3],
    ["b", 2],
  ] as const)
    addRunning(edge, tenantId, { at });
  const states = "state=running";
  const newestFirst = ["d running", "c running", "b running", "a running"];
  assert.equal(await pages(edge, states), [newestFirst]);
  assert.equal(await pages(edge, `${states}&order=asc`), [newestFirst.toReversed()]);
  for (const limit of [1, 2, 3]) assert.equal((await pages(edge, `${states}&limit=${limit}`)).flat(), newestFirst);
  assert.equal(await pages(edge, `${states}&startedAfter=2026-01-01T00:00:02Z`), [newestFirst.slice(0, 3)]);
  assert.equal(await pages(edge, `${states}&template=web`), [[]]);
  assert.equal((await ask(edge, "GET /sandboxes")).json, (await ask(edge, `GET /v2/sandboxes?${states}`)).json);
});

test("metadata is matched after it was encoded twice, as the SDKs do it", async ({ edge }) => {
  addRunning(edge, "a", { metadata: { user: "x y&z=ü%", app: "prod" } });
  addRunning(edge, "b", { metadata: { user: "other" } });
  const encoded = (pairs: Record<string, string>) => {
    const once = Object.entries(pairs).map((pair) => pair.map(encodeURIComponent) as [string, string]);
    return encodeURIComponent(new URLSearchParams(once).toString());
  };
  const found = async (pairs: Record<string, string>) => await pages(edge, `metadata=${encoded(pairs)}`);
  assert.equal(await found({ user: "x y&z=ü%" }), [["a running"]]);
  assert.equal(await found({ user: "x y&z=ü%", app: "prod" }), [["a running"]]);
  assert.equal(await found({ user: "other", app: "prod" }), [[]]);
  assert.equal(await found({ constructor: "x" }), [[]]);
  assert.equal(await pages(edge, "metadata=user%3Dother"), [["b running"]]);
});

test("paused ones are saved files without a claim, after the running ones", async ({ edge, served }) => {
  for (const tenantId of ["a", "b", "c"]) await save(served.store, tenantId, { tenantId, workloadRef: "app" });
  await save(served.store, "w", { tenantId: "a", workloadRef: "web" });
  addRunning(edge, "b");
  assert.equal(await pages(edge), [["b running", "a paused", "web--a paused", "c paused"]]);
  assert.equal((await pages(edge, "limit=1")).flat(), ["b running", "a paused", "web--a paused", "c paused"]);
  assert.equal((await pages(edge, "state=paused&template=web")).flat(), ["web--a paused"]);
  assert.equal((await pages(edge, "metadata=tenant%3Da")).flat(), ["a paused", "web--a paused"]);
  assert.equal((await pages(edge, "metadata=user%3Da")).flat(), []);
  const { json } = await ask(edge, "GET /sandboxes/app--a");
  const { state, metadata } = json as Listed;
  assert.equal({ state, metadata }, { state: "paused", metadata: { tenant: "a" } });
});

test("saved files tell the metadata of their sandbox, unless they were copied from another tenant", async ({
  edge,
  served,
}) => {
  const { store } = served;
  const tenantId = `e2b-${"a".repeat(16)}`;
  const key = { tenantId, workloadRef: "app" };
  const given = edge.cluster.addClaim({ ...key, status: active, deleting: true });
  const by = { kind: "key", id: "secret-id", ref: "secret-ref" };
  const text = JSON.stringify({ metadata: { user: "x" }, autoPause: true, made: true, by });
  const annotations = { [annotation.e2b]: text };
  const sandbox = sandboxToKeep({ ...given, metadata: { ...given.metadata, annotations } });
  assert.not.match(sandbox ?? "", /secret/);
  edge.cluster.removeClaim(given.metadata.name);
  const { revision } = await store.look(key, call);
  const described = {
    uid: 1,
    gid: 1,
    entries: 1,
    contentBytes: 1,
    overlayDirs: ["/data"],
    createdAt: "2026-01-01T00:00:00Z",
  };
  const describe = () => ({ ...described, sandbox });
  await store.put(key, pieces("files"), { ...call, replaces: revision, most: MOST, describe });
  assert.equal((await pages(edge, "metadata=user%3Dx")).flat(), [`${tenantId} paused`]);
  const { json } = await ask(edge, `GET /sandboxes/app--${tenantId}`);
  const { metadata, lifecycle } = json as Listed & { lifecycle: object };
  assert.equal(
    { metadata, lifecycle },
    { metadata: { user: "x" }, lifecycle: { onTimeout: "pause", autoResume: false } },
  );
  const headers = { authorization: `Bearer ${ROOT}` };
  const body = { tenantId: "b" };
  const copied = await edge.call(`POST /api/v1/tenants/${tenantId}/snapshots/app/copy`, { headers, body });
  assert.is(copied.status, 201, copied.text);
  assert.equal(((await ask(edge, "GET /sandboxes/app--b")).json as Listed).metadata, { tenant: "b" });
});

test("a key sees its own tenants, and reads no more of the store than pages of these", async (context) => {
  const { edge, served } = context;
  const tenants = ["acme", "acme--0", "acme-1", "acme-Z", "acme-z", "acme.x", "b", "zoe"];
  const many = Array.from({ length: 40 }, (_, at) => `acmf${String(at).padStart(3, "0")}`);
  for (const tenantId of [...tenants, ...many]) {
    await save(served.store, tenantId, { tenantId, workloadRef: "app" });
    await save(served.store, tenantId, { tenantId, workloadRef: "web" });
  }
  const listed = async (rights: object, limit: number) => {
    const key = await keyOf(edge, { role: "tenant", workloads: ["app"], ...rights });
    const all = await pages(edge, `state=paused&limit=${limit}`, key);
    return all.flat().map((one) => one.replace(" paused", ""));
  };
  for (const limit of [1, 2, 100]) {
    assert.equal(await listed({ tenants: ["acme-*"] }, limit), ["acme--0", "acme-1", "acme-Z", "acme-z"]);
    assert.equal(await listed({ tenants: ["zoe", "acme*", "acme-1", "b"] }, limit), [
      ...["acme--0", "acme-1", "acme-Z", "acme-z", "acme.x", "acme", "b", "zoe"],
    ]);
    assert.equal(await listed({ tenants: ["none", "acme.x"] }, limit), ["acme.x"]);
  }
  context.reads = 0;
  const key = await keyOf(edge, { role: "tenant", tenants: ["acmf*"], workloads: ["none"] });
  const first = await ask(edge, "GET /v2/sandboxes?state=paused&limit=1", { key });
  assert.equal(first.json, []);
  assert.ok(first.headers.get("x-next-token"));
  assert.is(context.reads, 4);
});

test("a claim that ends, has failed or lost its pod is no running sandbox", async ({ edge, served }) => {
  const { cluster } = edge;
  const of = (tenantId: string) => ({ tenantId, workloadRef: "app" });
  cluster.addClaim({ ...of("deleted"), status: active, deleting: true });
  cluster.addClaim({ ...of("failed"), status: { phase: "Error", reason: "ImagePullFailed" } });
  cluster.addClaim({ ...of("lost"), status: active, destroyed: active.instanceId ?? "" });
  cluster.addClaim({ ...of("starts"), status: { phase: "Pending" } });
  await save(served.store, "kept", of("failed"));
  assert.equal(await pages(edge), [["starts running", "failed paused"]]);
  const states = [];
  for (const tenant of ["deleted", "failed", "lost", "starts", "none"]) {
    const { status, json } = await ask(edge, `GET /sandboxes/app--${tenant}`);
    states.push(status === 200 ? (json as Listed).state : status);
  }
  assert.equal(states, ["paused", "paused", 404, "running", 404]);
});

testOfVolume("saved files without their metadata are a paused sandbox", async ({ edge, volume }) => {
  volume.save("a", "app");
  for (const name of readdirSync(join(volume.path, "a")))
    if (name.endsWith(".json")) rmSync(join(volume.path, "a", name));
  assert.equal(await pages(edge), [["a paused"]]);
  const { status, json } = await ask(edge, "GET /sandboxes/app--a");
  assert.equal([status, (json as Listed).state], [200, "paused"]);
});

test("values that no list can have are refused", async ({ edge }) => {
  for (const query of [
    ...["limit=0", "limit=101", "limit=x", "state=stopped", "order=up", "startedAfter=now", "template=A%20b"],
    ...[
      "nextToken=x",
      "nextToken=..",
      `nextToken=${"a".repeat(2000)}`,
      "unknown=1",
      "metadata=%25E0%2525",
      "limit=1&limit=2",
    ],
    `nextToken=${Buffer.from('{"state":"paused","after":{"tenantId":"../b","workloadRef":"app"}}').toString("base64url")}`,
  ]) {
    const { status, text } = await ask(edge, `GET /v2/sandboxes?${query}`);
    assert.is(status, 400, `${query}: ${text}`);
  }
});

test("named versions are snapshots: of one sandbox, or of all that the key reaches", async ({ edge, served }) => {
  for (const tenantId of ["a", "b"]) {
    const { metadata } = await save(served.store, tenantId, { tenantId, workloadRef: "app" });
    for (const name of ["v1", "v2"])
      await served.store.setName({ tenantId, workloadRef: "app" }, { sha256: metadata.sha256, name }, call);
  }
  const ids = async (query: string, key = ROOT) =>
    ((await ask(edge, `GET /snapshots?${query}`, { key })).json as { snapshotID: string }[]).map(
      (one) => one.snapshotID,
    );
  const ofB = ["app--b:v1", "app--b:v2"];
  assert.equal(await ids(""), ["app--a:v1", "app--a:v2", ...ofB]);
  assert.equal(await ids("name=v1"), ["app--a:v1", "app--b:v1"]);
  assert.equal(await ids("sandboxID=app--b&name=app--b%3Av2"), ["app--b:v2"]);
  const key = await keyOf(edge, { role: "tenant", tenants: ["b"] });
  assert.equal(await ids("", key), ofB);
  assert.equal(await ids("sandboxID=app--b", key), ofB);
  for (const sandbox of ["app--a", "app--none", "x"]) assert.equal(await ids(`sandboxID=${sandbox}`, key), []);
});

test.run();
