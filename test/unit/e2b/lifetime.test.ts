// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { readKeptSandbox, sandboxToKeep } from "../../../crds/claims/kept-sandbox.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { root } from "../../../edge/access/actor.ts";
import { recordAnnotation, type SandboxRecord } from "../../../edge/e2b/sandbox-record.ts";
import { eventually } from "../../eventually.ts";
import { answerCheckpoint } from "../edge/claim-calls.ts";
import { type SnapshotsFolder, snapshotsFolder } from "../edge/snapshots-folder.ts";
import { type Answer, type TestEdge, testEdge } from "../edge/test-edge.ts";
import { checkpoint } from "../snapshots/checkpoint-contract.ts";
import { call, load, save } from "../snapshots/store-contract.ts";
import { type ServedStore, serveStore } from "../snapshots/store-server.ts";
import { activateNext, allClaims, ask, create, keyOf, ROOT } from "./sandbox-calls.ts";

interface Context {
  volume: SnapshotsFolder;
  served: ServedStore;
  edge: TestEdge;
  /** Of the API server, which the expiry is counted by. */
  now: number;
  /** Called before the store deletes. */
  onDelete: (() => Promise<void>) | undefined;
}

const test = suite<Context>("what becomes of a sandbox");
const NOW = Date.parse("2030-01-01T00:00:00Z");

test.before.each(async (context) => {
  context.volume = snapshotsFolder();
  context.served = await serveStore(context.volume.path);
  context.now = NOW;
  context.onDelete = undefined;
  const { store } = context.served;
  const held: SnapshotStore = Object.assign(Object.create(store), {
    async delete(...given: Parameters<SnapshotStore["delete"]>) {
      await context.onDelete?.();
      return await store.delete(...given);
    },
  });
  context.edge = testEdge({
    ...{ apiKey: ROOT, hasKeys: true, store: held, clock: systemClock },
    timeOfDay: () => context.now,
  });
  const { cluster } = context.edge;
  cluster.addSnapshots();
  cluster.addWorkload("app", { entrypoint: { start: "OnClaim" }, filesystem: { overlayDirs: ["/data"] } });
  cluster.addWorkload("forgets");
});
test.after.each(async ({ served, volume, edge }) => {
  await edge.activity.close();
  await served.close();
  volume.remove();
});

function claimNow({ cluster }: TestEdge, { metadata }: Claim): Claim {
  return cluster.read(claims, metadata.name);
}

function idOf({ spec }: Claim): string {
  return `${spec.workloadRef}--${spec.tenantId}`;
}

/** The pod of a claim saves its files, as the operator stamps it. */
function savesFiles({ cluster }: TestEdge, { status }: Claim): void {
  const pod = cluster.read(pods, status?.instanceId ?? "");
  const annotations = { ...pod.metadata.annotations, [annotation.overlayDirs]: '["/data"]' };
  cluster.remove(pods, pod.metadata.name);
  const { resourceVersion, ...metadata } = pod.metadata;
  cluster.add(pods, { ...pod, metadata: { ...metadata, annotations } });
}

/** What saved files of a sandbox keep of it. */
function keptSandbox(tenantId: string, record: Pick<SandboxRecord, "made" | "metadata">): string | undefined {
  const annotations = recordAnnotation({ ...record, autoPause: false, by: root });
  return sandboxToKeep({ metadata: { annotations }, spec: { tenantId } });
}

/** Ends the release of a claim once it is deleted, as the operator does. */
async function endRelease(edge: TestEdge, claim: Claim, work: () => Promise<unknown> = async () => undefined) {
  await eventually(() => claimNow(edge, claim).metadata.deletionTimestamp !== undefined);
  await work();
  edge.cluster.removeClaim(claim.metadata.name);
}

const isDone = (answer: Answer) => assert.is(answer.status, 204, answer.text);

test("a timeout moves the end to both sides by the API server's clock, and a refresh only to a later time", async (context) => {
  const { edge } = context;
  const { claim } = await create(edge, { timeout: 600 });
  const to = (route: string, body: object) => ask(edge, `POST /sandboxes/${idOf(claim)}/${route}`, { body });
  const endAt = () => claimNow(edge, claim).spec.expiresAt;
  assert.is(endAt(), "2030-01-01T00:10:00Z");
  isDone(await to("timeout", { timeout: 60 }));
  assert.is(endAt(), "2030-01-01T00:01:00Z");
  isDone(await to("refreshes", { duration: 30 }));
  assert.is(endAt(), "2030-01-01T00:01:00Z");
  isDone(await to("refreshes", { duration: 90 }));
  assert.is(endAt(), "2030-01-01T00:01:30Z");
  assert.is((await to("connect", { timeout: 10 })).status, 200);
  assert.is(endAt(), "2030-01-01T00:01:30Z");
  context.now += 3_600_000;
  assert.is((await to("connect", {})).status, 200);
  assert.is(endAt(), "2030-01-01T01:05:00Z");
  isDone(await to("timeout", { timeout: 0 }));
  assert.is(endAt(), "2030-01-01T01:00:00Z");
  for (const timeout of [-1, 1.5, "1", null, 1e9]) assert.is((await to("timeout", { timeout })).status, 400);
  assert.is((await ask(edge, "POST /sandboxes/app--none/timeout", { body: { timeout: 1 } })).status, 404);
});

test("a pause saves the files or is refused, and connecting brings them back", async ({ edge, served }) => {
  const { claim } = await create(edge, { metadata: { user: "x" } });
  const id = idOf(claim);
  const pause = (body: object = {}) => ask(edge, `POST /sandboxes/${id}/pause`, { body });
  assert.is((await pause({ memory: true })).status, 501);
  const refused = await pause();
  assert.is(refused.status, 400, "the pod of the claim saves no files");
  savesFiles(edge, claim);
  const saved = () => save(served.store, "files", { tenantId: claim.spec.tenantId, workloadRef: "app" });
  const [paused] = await Promise.all([pause({ memory: false }), endRelease(edge, claim, saved)]);
  isDone(paused);
  assert.is((await pause()).status, 409);
  assert.equal((await ask(edge, `GET /sandboxes/${id}/metrics`)).json, []);
  assert.is((await ask(edge, `POST /sandboxes/${id}/timeout`, { body: { timeout: 60 } })).status, 404);
  assert.is((await ask(edge, `POST /sandboxes/${id}/connect`, { body: { memory: true } })).status, 501);
  const [resumed, again] = await Promise.all([
    ask(edge, `POST /sandboxes/${id}/resume`, { body: { timeout: 60 } }),
    activateNext(edge),
  ]);
  assert.is(resumed.status, 201, resumed.text);
  assert.is(again.spec.resume, true);
  assert.is(again.spec.tenantId, claim.spec.tenantId);
  assert.is((await ask(edge, `POST /sandboxes/${id}/resume`, { body: {} })).status, 409);
  for (const path of [`/v2/sandboxes/${id}/connect`, `/sandboxes/${id}/connect`])
    assert.is((await ask(edge, `POST ${path}`)).status, 200);
});

test("what is killed is gone with its pod and files, also what is saved at its end", async (context) => {
  const { edge, served } = context;
  const { claim } = await create(edge);
  const key = { tenantId: claim.spec.tenantId, workloadRef: "app" };
  await save(served.store, "older", key);
  context.onDelete = async () => {
    context.onDelete = undefined;
    await save(served.store, "newer", key);
  };
  const { instanceId = "" } = claim.status ?? {};
  const [killed] = await Promise.all([ask(edge, `DELETE /sandboxes/${idOf(claim)}`), endRelease(edge, claim)]);
  isDone(killed);
  assert.not(edge.cluster.has(pods, instanceId));
  assert.is((await served.store.look(key, call)).state, "none");
  assert.is((await ask(edge, `DELETE /sandboxes/${idOf(claim)}`)).status, 404);
});

test("a paused sandbox is killed too, and one with snapshots leaves them", async ({ edge, served }) => {
  const tenants = [`e2b-${"a".repeat(16)}`, `acme.e2b-${"b".repeat(16)}`, "alice"];
  for (const [at, tenantId] of tenants.entries()) {
    const sandbox = keptSandbox(tenantId, { made: tenantId !== "alice", metadata: { long: "x".repeat(5000 * at) } });
    await save(served.store, tenantId, { tenantId, workloadRef: "app" }, { sandbox });
    isDone(await ask(edge, `DELETE /sandboxes/app--${tenantId}`));
  }
  const state = async (tenantId = "") => (await served.store.look({ tenantId, workloadRef: "app" }, call)).state;
  assert.equal(await Promise.all(tenants.map(state)), ["none", "none", "kept"]);

  const { claim } = await create(edge);
  const key = { tenantId: claim.spec.tenantId, workloadRef: "app" };
  const {
    metadata: { sha256 },
  } = await checkpoint(served.store, "snapshot", {
    ...{ to: key, session: claim.metadata.uid ?? "" },
    sandbox: sandboxToKeep(claim),
  });
  await served.store.setName(key, { sha256, name: "v1" }, call);
  const [killed] = await Promise.all([ask(edge, `DELETE /sandboxes/${idOf(claim)}`), endRelease(edge, claim)]);
  isDone(killed);
  assert.is(await load(served.store, key, sha256), "snapshot");
  assert.is((await ask(edge, `GET /sandboxes/${idOf(claim)}`)).status, 404);
  isDone(await ask(edge, `DELETE /templates/${encodeURIComponent(`${idOf(claim)}:v1`)}`));
  assert.is(await load(served.store, key, sha256), undefined);
});

test("files that do not say that their tenant was made for a sandbox are never deleted, whatever its id", async ({
  edge,
  served,
}) => {
  const key = { tenantId: "acme-e2b-integrationtests", workloadRef: "app" };
  const id = `app--${key.tenantId}`;
  const headers = { authorization: `Bearer ${ROOT}` };
  const [claimed, claim] = await Promise.all([
    edge.call(`POST /api/v1/tenants/${key.tenantId}/claim`, { headers, body: { workload: "app" } }),
    activateNext(edge),
  ]);
  assert.is(claimed.status, 201, claimed.text);
  isDone(await ask(edge, `DELETE /sandboxes/${id}`));
  await endRelease(edge, claim, () => save(served.store, "files", key));
  for (let again = 0; again < 2; again += 1) isDone(await ask(edge, `DELETE /sandboxes/${id}`));
  assert.is(await load(served.store, key), "files");

  const left = { tenantId: `e2b-${"c".repeat(16)}`, workloadRef: "app" };
  const unnamed = await checkpoint(served.store, "work", { to: left, session: "1" });
  const named = await checkpoint(served.store, "snapshot", { to: left, session: "2" });
  await served.store.setName(left, { sha256: named.metadata.sha256, name: "v1" }, call);
  isDone(await ask(edge, `DELETE /templates/${encodeURIComponent(`app--${left.tenantId}:v1`)}`));
  assert.is(await load(served.store, left, unnamed.metadata.sha256), "work");
});

test("a tenant with a name of its own is released, and its files stay", async ({ edge, served }) => {
  const { claim } = await create(edge, { metadata: { tenant: "alice" } });
  assert.is(claim.spec.resume, true);
  const key = { tenantId: "alice", workloadRef: "app" };
  await save(served.store, "files", key);
  isDone(await ask(edge, "DELETE /sandboxes/app--alice"));
  assert.ok(claimNow(edge, claim).metadata.deletionTimestamp);
  assert.ok(edge.cluster.has(pods, claim.status?.instanceId ?? ""), "the operator saves its files first");
  assert.is(await load(served.store, key), "files");
});

test("a fork fails alone, and leaves nothing", async ({ edge, served }) => {
  const { claim } = await create(edge, { envVars: { A: "b" }, metadata: { user: "x" } });
  savesFiles(edge, claim);
  const key = { tenantId: claim.spec.tenantId, workloadRef: "app" };
  const { metadata: made } = await checkpoint(served.store, "files", { to: key, session: claim.metadata.uid ?? "" });
  const answer = ask(edge, `POST /sandboxes/${idOf(claim)}/fork`, { body: { count: 2, timeout: 60 } });
  await answerCheckpoint(edge, claim.metadata.name, { sha256: made.sha256 });
  const forks = () => allClaims(edge).filter(({ spec }) => spec.tenantId !== claim.spec.tenantId);
  await eventually(() => forks().length === 2);
  const [good, bad] = forks() as [Claim, Claim];
  assert.equal(good.spec.inputs, { env: { A: "b" } });
  const restored = { instanceId: "inst-good", resumedFrom: made.sha256 };
  edge.cluster.setStatus(good.metadata.name, { ...claim.status, phase: "Active", ...restored });
  edge.cluster.podOf(claimNow(edge, good));
  edge.cluster.setStatus(bad.metadata.name, { phase: "Error", reason: "ImagePullFailed", message: "no image" });
  await endRelease(edge, bad);
  const { status, json, text } = await answer;
  assert.is(status, 201, text);
  const results = json as { sandbox?: { sandboxID: string }; error?: { code: number; message: string } }[];
  const ids = results.flatMap(({ sandbox }) => sandbox?.sandboxID ?? []);
  assert.equal(ids, [idOf(good)]);
  assert.equal(
    results.flatMap(({ error }) => error ?? []),
    [{ code: 500, message: "no image" }],
  );
  const copy = await served.store.look(good.spec, call);
  assert.ok(readKeptSandbox(copy.newest?.sandbox, good.spec)?.made, "a kill of the paused fork deletes its files");
  const state = async ({ spec }: Claim) => (await served.store.look(spec, call)).state;
  assert.equal([await state(good), await state(bad)], ["kept", "none"]);
  for (const count of [0, 17, 1.5, "1"])
    assert.is((await ask(edge, `POST /sandboxes/${idOf(claim)}/fork`, { body: { count } })).status, 400);
  const exact = await keyOf(edge, { role: "tenant", tenants: [claim.spec.tenantId] });
  assert.is((await ask(edge, `POST /sandboxes/${idOf(claim)}/fork`, { key: exact })).status, 403);
});

test("calls that are not done say so, also for a tag, a build or a volume", async ({ edge }) => {
  const { claim } = await create(edge, { templateID: "forgets" });
  for (const target of [
    ...[`PUT /sandboxes/${idOf(claim)}/network`, "GET /sandboxes/metrics"],
    ...["POST /v3/templates", "POST /v2/templates/app/builds/1", "GET /templates/app/builds/1/status?logsOffset=0"],
    ...["POST /volumes", "GET /volumes", "GET /secrets", "GET /teams", "DELETE /templates/app", "PATCH /templates/app"],
  ]) {
    const { status, json } = await ask(edge, target);
    assert.is(status, 501, target);
    const { code, message } = json as { code: number; message: string };
    assert.is(code, 501);
    assert.match(message, / is not implemented by tenancy: /);
  }
  assert.is((await ask(edge, "GET /nothing")).status, 404);
  assert.is((await ask(edge, "PUT /sandboxes")).status, 405);
  assert.is((await edge.call("GET /e2b")).status, 401);
});

test.run();
