// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { annotation } from "../../../crds/labels.ts";
import type { VersionRecord } from "../../../edge/api/snapshots/versions.ts";
import { eventually } from "../../eventually.ts";
import { checkpoint } from "../snapshots/checkpoint-contract.ts";
import { call, save } from "../snapshots/store-contract.ts";
import { type ServedStore, serveStore } from "../snapshots/store-server.ts";
import { active, answerCheckpoint, edgeWithWorkload, NAME, pair, waiting } from "./claim-calls.ts";
import { type SnapshotsFolder, snapshotsFolder } from "./snapshots-folder.ts";
import type { Answer, TestEdge } from "./test-edge.ts";

interface Context {
  volume: SnapshotsFolder;
  served: ServedStore;
  edge: TestEdge;
}

const test = suite<Context>("checkpoints by hand");

test.before.each(async (context) => {
  context.volume = snapshotsFolder();
  context.served = await serveStore(context.volume.path);
  context.edge = edgeWithWorkload({ store: context.served.store });
  context.edge.cluster.addSnapshots();
  context.edge.cluster.addClaim({ ...pair, status: active });
});
test.after.each(async ({ served, volume }) => {
  await served.close();
  volume.remove();
});

const asked = (edge: TestEdge, body: object = {}): Promise<Answer> =>
  edge.call("POST /api/v1/tenants/a/checkpoint", { body: { workload: "app", ...body } });
const errorIn = ({ json }: Answer): string => (json as { error: string }).error;

/** What the operator does: it saves the files, and names them. */
async function make({ edge, served: { store } }: Context, content: string): Promise<string> {
  const { metadata } = await checkpoint(store, content, { session: "a", to: pair });
  const { sha256 } = metadata;
  const request = await answerCheckpoint(edge, NAME, { sha256 });
  const [name = ""] = request.split("/");
  if (name !== "") assert.is(await store.setName(pair, { sha256, name }, call), "named");
  return sha256;
}

test("the answer is the version that was made, by its name from then on", async (context) => {
  const { edge, served } = context;
  await save(served.store, "released", pair);
  const call = asked(edge, { name: "before" });
  const sha256 = await make(context, "step 1");
  const { status, json } = await call;
  const made = json as VersionRecord;
  assert.equal([status, made.sha256, made.newest, made.kind], [201, sha256, false, "checkpoint"]);
  const second = asked(edge);
  const last = await make(context, "step 2");
  assert.is(((await second).json as VersionRecord).sha256, last);
  const { json: versions } = await edge.call("GET /api/v1/tenants/a/snapshots/app/versions");
  const shown = (versions as VersionRecord[]).map(({ sha256, names }) => [sha256, names]);
  assert.equal(shown.slice(1), [
    [last, undefined],
    [sha256, ["before"]],
  ]);
  const { json: listed } = await edge.call("GET /api/v1/snapshots?versions=true");
  assert.equal((listed as VersionRecord[]).at(-1)?.names, ["before"]);
  const download = await edge.call("GET /api/v1/tenants/a/snapshots/app/archive?version=before");
  assert.equal([download.status, download.text], [200, "step 1"]);
  const copied = await edge.call("POST /api/v1/tenants/a/snapshots/app/copy", {
    body: { tenantId: "b", version: "before" },
  });
  assert.equal([copied.status, (copied.json as VersionRecord).sha256], [201, sha256]);
  const unknown = await edge.call("GET /api/v1/tenants/a/snapshots/app/archive?version=other");
  assert.is(unknown.status, 404);
  assert.match(errorIn(unknown), `${sha256.slice(0, 16)} = before`);
});

test("a claim restores a version by its name", async (context) => {
  const { edge } = context;
  const call = asked(edge, { name: "before" });
  const sha256 = await make(context, "step 1");
  assert.is((await call).status, 201);
  edge.cluster.removeClaim(NAME);
  const body = { workload: "app", resume: { version: "before" } };
  const claimed = edge.call("POST /api/v1/tenants/a/claim", { body });
  await waiting(edge);
  assert.is(edge.cluster.claim(NAME).spec.resumeVersion, sha256);
  edge.cluster.setStatus(NAME, { ...active, resumedFrom: sha256 });
  assert.is((await claimed).status, 201);
  const other = await edge.call("POST /api/v1/tenants/a/claim", {
    body: { workload: "app", resume: { version: "after" } },
  });
  assert.is(other.status, 409);
  assert.match(errorIn(other), 'no saved version "after"');
});

test("a refusal or failure is answered with what the operator says", async ({ edge }) => {
  const cases = [
    ["NameTaken", 409],
    ["TooManyNames", 409],
    ["NoFiles", 409],
    ["SnapshotQuotaExceeded", 409],
    ["CheckpointFailed", 500],
  ] as const;
  for (const [reason, status] of cases) {
    const call = asked(edge, { name: "x" });
    await answerCheckpoint(edge, NAME, { reason, message: `because of ${reason}` });
    const answer = await call;
    assert.equal([answer.status, errorIn(answer)], [status, `because of ${reason}`]);
  }
});

test("without an instance nothing is asked for", async ({ edge }) => {
  const { cluster } = edge;
  assert.is((await asked(edge, { workload: "other" })).status, 404);
  assert.is((await asked(edge, { uid: "another" })).status, 409);
  cluster.setStatus(NAME, { phase: "Pending" });
  assert.match(errorIn(await asked(edge)), "it is Pending");
  cluster.removeClaim(NAME);
  cluster.addClaim({ ...pair, status: active, destroyed: active.instanceId ?? "" });
  assert.match(errorIn(await asked(edge)), "its instance was destroyed");
  cluster.removeClaim(NAME);
  cluster.addClaim({ ...pair, status: active, deleting: true });
  assert.match(errorIn(await asked(edge)), "is being released");
  assert.is(cluster.claim(NAME).metadata.annotations?.[annotation.checkpoint], undefined);
});

test("a second call waits for the same name, and is refused for another", async (context) => {
  const { edge } = context;
  const calls = [asked(edge, { name: "x" })];
  await waiting(edge);
  calls.push(asked(edge, { name: "x" }));
  await waiting(edge, 2);
  for (const body of [{ name: "y" }, {}]) {
    const answer = await asked(edge, body);
    assert.equal([answer.status, answer.headers.get("retry-after")], [409, "1"]);
  }
  await make(context, "step 1");
  for (const call of calls) assert.is((await call).status, 201);
});

test("a wait ends with the limit, the client or the claim, and the request stays", async ({ edge }) => {
  const { cluster, clock } = edge;
  const late = asked(edge, { name: "x" });
  await waiting(edge);
  await clock.pass(30_000);
  const answer = await late;
  assert.is(answer.status, 504);
  assert.match(errorIn(answer), "it goes on");
  const gone = new AbortController();
  const body = { workload: "app", name: "x" };
  const left = edge.call("POST /api/v1/tenants/a/checkpoint", { body, signal: gone.signal });
  await waiting(edge);
  gone.abort();
  assert.is((await left).status, 499);
  const released = asked(edge, { name: "x" });
  await waiting(edge);
  assert.match(cluster.claim(NAME).metadata.annotations?.[annotation.checkpoint] ?? "", /^x\/./);
  cluster.removeClaim(NAME);
  assert.match(errorIn(await released), "was released before");
});

test("a name that cannot be one is refused before anything is asked for", async ({ edge }) => {
  for (const name of ["", "a b", "-a", "a/b", "0123456789abcdef", "x".repeat(64), "f".repeat(64), 1]) {
    const answer = await asked(edge, { name });
    assert.is(answer.status, 400, String(name));
  }
  assert.is(edge.cluster.claim(NAME).metadata.annotations?.[annotation.checkpoint], undefined);
});

test("a name is removed, and nothing else", async (context) => {
  const { edge } = context;
  const call = asked(edge, { name: "before" });
  const sha256 = await make(context, "step 1");
  await call;
  const remove = (name: string): Promise<Answer> => edge.call(`DELETE /api/v1/tenants/a/snapshots/app/names/${name}`);
  assert.is((await remove("other")).status, 404);
  assert.is((await remove("0123456789abcdef")).status, 400);
  assert.equal((await remove("before")).json, { status: "removed", tenantId: "a" });
  assert.is((await remove("before")).status, 404);
  await eventually(async () => {
    const { json } = await edge.call("GET /api/v1/tenants/a/snapshots/app/versions");
    const [version] = json as VersionRecord[];
    return version?.sha256 === sha256 && version.names === undefined;
  });
});

test.run();
