// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { ApiError } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { createStore } from "../../../crds/client/watch/store.ts";
import { annotation } from "../../../crds/labels.ts";
import type { ApiTypes } from "../../../edge/api/openapi/schemas.ts";
import { createPages } from "../../../edge/api/pages.ts";
import { manualClock } from "../manual-clock.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("GET of claims and instances in pages, of one claim, and discard");
const active: ClaimStatus = { phase: "Active", instanceId: "inst-a", source: "pool" };

/** Reads all pages of a list, and says how many there were. */
async function all(edge: TestEdge, path: string): Promise<{ names: string[]; pages: number }> {
  const names: string[] = [];
  let after = "";
  for (let pages = 1; ; pages += 1) {
    const { status, json, headers, text } = await edge.call(
      `GET ${path}${after === "" ? "" : `${path.includes("?") ? "&" : "?"}after=${after}`}`,
    );
    assert.is(status, 200, text);
    names.push(...(json as { name: string }[]).map(({ name }) => name));
    after = headers.get("x-tenancy-next") ?? "";
    if (after === "") return { names, pages };
  }
}

const numbered = (count: number) => Array.from({ length: count }, (_, index) => String(index).padStart(3, "0"));

test("claims come in pages by name, and no page is empty but that of none", async () => {
  const edge = testEdge();
  assert.equal(await all(edge, "/api/v1/claims"), { names: [], pages: 1 });
  for (const number of numbered(20).reverse()) edge.cluster.addClaim({ tenantId: `t${number}`, workloadRef: "app" });
  const names = numbered(20).map((number) => `claim-t${number}-app`);
  assert.equal(await all(edge, "/api/v1/claims"), { names, pages: 1 });
  assert.equal(await all(edge, "/api/v1/claims?limit=7"), { names, pages: 3 });
  assert.equal(await all(edge, "/api/v1/claims?limit=10"), { names, pages: 2 });
  assert.equal(await all(edge, "/api/v1/claims?limit=20"), { names, pages: 1 });
  assert.equal(edge.cluster.calls, []);
});

test("claims are found by tenant, workload and phase, page by page", async () => {
  const edge = testEdge();
  for (const number of numbered(9)) {
    const status: ClaimStatus = { phase: Number(number) % 3 === 0 ? "Error" : "Pending" };
    edge.cluster.addClaim({ tenantId: `t${number}`, workloadRef: "app", status });
    edge.cluster.addClaim({ tenantId: `t${number}`, workloadRef: "web" });
  }
  const errors = ["claim-t000-app", "claim-t003-app", "claim-t006-app"];
  assert.equal(await all(edge, "/api/v1/claims?phase=Error&limit=2"), { names: errors, pages: 2 });
  assert.equal(await all(edge, "/api/v1/claims?phase=Error&limit=3"), { names: errors, pages: 1 });
  assert.is((await all(edge, "/api/v1/claims?phase=Error,Pending&workload=app")).names.length, 9);
  assert.equal((await all(edge, "/api/v1/claims?tenant=t004&limit=1")).names, ["claim-t004-app", "claim-t004-web"]);
  for (const [query, message] of [
    ["limit=0", "query.limit: must be a whole number from 1 to 1000"],
    ["limit=1001", "query.limit: must be"],
    ["limit=1&limit=2", "query.limit: must be"],
    ["after=A", "query.after: "],
    ["phase=Lost", 'query.phase: "Lost" is not one of Pending, Active'],
    ["tenant=-a", "query.tenant: "],
  ]) {
    const answer = await edge.call(`GET /api/v1/claims?${query}`);
    assert.is(answer.status, 400, query);
    assert.match(answer.error ?? "", message ?? "");
  }
});

test("a list says how new it is: its first page is, and the others are of the same moment", async () => {
  const edge = testEdge();
  for (const number of numbered(4)) edge.cluster.addClaim({ tenantId: `t${number}`, workloadRef: "app" });
  const versionOf = async (query: string) =>
    (await edge.call(`GET /api/v1/claims?${query}`)).headers.get("x-tenancy-version");
  const before = await versionOf("limit=2");
  edge.cluster.addClaim({ tenantId: "t0015", workloadRef: "app" });
  // It may be among the names of this page or not: whoever needs it has to begin again.
  assert.is(await versionOf("limit=2&after=claim-t001-app"), before);
  assert.ok(Number(await versionOf("limit=2")) > Number(before));
  // The names are not kept for ever.
  edge.cluster.addClaim({ tenantId: "t0025", workloadRef: "app" });
  await edge.clock.pass(60_000);
  assert.ok(Number(await versionOf("limit=2&after=claim-t001-app")) > Number(before) + 1);
  assert.equal((await all(edge, "/api/v1/claims?limit=2")).names.length, 6);
});

test("a list grows as new as the watch has come, also where nothing changes", () => {
  let seen = "10";
  const store = createStore<Claim>({ indexes: {} });
  store.put({
    metadata: { name: "c", namespace: "n", resourceVersion: "5" },
    spec: { tenantId: "a", workloadRef: "b" },
  });
  const versions = () => ({ seen, changed: "10" });
  const pages = createPages({ store, versions }, { namespace: "n", clock: manualClock() });
  const version = () => pages.read({ limit: 5, after: undefined, matches: () => true }).headers["x-tenancy-version"];
  assert.is(version(), "10");
  // A bookmark: without it, a reader who follows another replica would never take this list.
  seen = "40";
  assert.is(version(), "40");
});

test("what goes while a list is read is left out of it", async () => {
  const edge = testEdge();
  for (const number of numbered(4)) edge.cluster.addClaim({ tenantId: `t${number}`, workloadRef: "app" });
  await edge.call("GET /api/v1/claims?limit=1");
  edge.cluster.removeClaim("claim-t001-app");
  const rest = await edge.call("GET /api/v1/claims?limit=5&after=claim-t000-app");
  assert.equal(
    (rest.json as { name: string }[]).map(({ name }) => name),
    ["claim-t002-app", "claim-t003-app"],
  );
});

test("instances come whole, or in pages where a limit is given, and are found by tenant, workload and phase", async () => {
  const edge = testEdge();
  for (const number of numbered(5)) edge.cluster.addInstance(`inst-${number}`);
  edge.cluster.addPod("inst-x", "Pending");
  const names = [...numbered(5).map((number) => `inst-${number}`), "inst-x"];
  assert.equal(await all(edge, "/api/v1/instances"), { names, pages: 1 });
  assert.equal(await all(edge, "/api/v1/instances?limit=2"), { names, pages: 3 });
  assert.equal(await all(edge, "/api/v1/instances?phase=Pending"), { names: ["inst-x"], pages: 1 });
  assert.equal((await all(edge, "/api/v1/instances?workload=app&limit=3")).pages, 2);
  assert.equal((await all(edge, "/api/v1/instances?tenant=inst-001")).names, ["inst-001"]);
  assert.is((await edge.call("GET /api/v1/instances?phase=Lost")).status, 400);
});

test("a listed claim is the claim response object, its name, its age and what it asks for", async () => {
  const edge = testEdge();
  edge.cluster.addClaim({ tenantId: "a", workloadRef: "app", uid: "u", status: active });
  assert.equal((await edge.call("GET /api/v1/claims")).json, [
    {
      ...{ tenantId: "a", phase: "Active", instanceId: "inst-a", source: "pool", workloadRef: "app" },
      ...{ name: "claim-a-app", uid: "u", createdAt: "2026-01-01T00:00:00Z", resume: false },
    },
  ]);
});

test("one claim tells how its start went, and its Events and those of its pod by their time", async () => {
  const edge = testEdge();
  const timeline = [
    { step: "Seen" as const, at: "2026-01-01T00:00:00.006Z" },
    { step: "Active" as const, at: "2026-01-01T00:00:00.014Z" },
  ];
  const { metadata } = edge.cluster.addClaim({
    ...{ tenantId: "a", workloadRef: "app" },
    status: { ...active, timeline, resumedFrom: "none", instanceUid: "uid-pod" },
  });
  edge.cluster.addEvent({ kind: "Pod", uid: "uid-pod" }, { reason: "Pulled", at: "2026-01-01T00:00:03Z" });
  edge.cluster.addEvent({ kind: "TenancyClaim", uid: metadata.uid }, { reason: "PodLost", at: "2026-01-01T00:00:01Z" });
  edge.cluster.addEvent({ kind: "Pod", uid: "uid-other" }, { reason: "Other", at: "2026-01-01T00:00:02Z" });
  const answer = await edge.call("GET /api/v1/tenants/a/claims/app");
  assert.is(answer.status, 200, answer.text);
  const { events, ...claim } = answer.json as ApiTypes["ClaimDetail"];
  assert.equal(
    events?.map(({ about, reason, at }) => `${about} ${reason} ${at}`),
    ["claim PodLost 2026-01-01T00:00:01Z", "instance Pulled 2026-01-01T00:00:03Z"],
  );
  assert.equal(claim.timeline, timeline);
  assert.is(claim.resumedFrom, "none");
  assert.is(claim.waitsFor, undefined);
});

test("Events that cannot be read are said to be so, and the rest is told", async () => {
  const edge = testEdge();
  edge.cluster.addInstance("inst-a");
  const refused = new ApiError("too many requests", { status: 429, reason: "TooManyRequests" });
  for (const path of ["/tenants/inst-a/claims/app", "/instances/inst-a?detail=true"]) {
    edge.cluster.onNext("list", refused);
    const answer = await edge.call(`GET /api/v1${path}`);
    assert.is(answer.status, 200, answer.text);
    const { events, eventsProblem, workloadRef } = answer.json as ApiTypes["ClaimDetail"];
    assert.equal([workloadRef, events], ["app", undefined]);
    assert.is(eventsProblem, "cannot read the Events: too many requests");
  }
});

test("a claim that is not Active says what it waits for; one that nobody made is a 404", async () => {
  const edge = testEdge();
  const detail = async () => (await edge.call("GET /api/v1/tenants/a/claims/app")).json as ApiTypes["ClaimDetail"];
  edge.cluster.addClaim({ tenantId: "a", workloadRef: "app" });
  assert.match((await detail()).waitsFor ?? "", "no operator has reported on the claim");
  edge.cluster.setStatus("claim-a-app", { phase: "Pending", message: "no node can take the pod" });
  assert.is((await detail()).waitsFor, "no node can take the pod");
  await edge.call("POST /api/v1/tenants/a/release", { body: { workload: "app" } });
  assert.match((await detail()).waitsFor ?? "", "its last session is still being released");
  assert.type((await detail()).releasingSince, "string");
  const none = await edge.call("GET /api/v1/tenants/b/claims/app");
  assert.is(none.status, 404);
  assert.is(none.error, 'tenant "b" has no claim on workload "app"');
});

test("a claim that another replica has just made is found before the watch shows it", async () => {
  const edge = testEdge();
  edge.cluster.lag = true;
  edge.cluster.addClaim({ tenantId: "a", workloadRef: "app" });
  assert.is((await edge.call("GET /api/v1/tenants/a/claims/app")).status, 200);
});

test("discard gives up the files of a failed release, and of nothing else", async () => {
  const edge = testEdge();
  const discard = () => edge.call("POST /api/v1/tenants/a/discard", { body: { workload: "app" } });
  const isDiscarded = () => edge.cluster.claim("claim-a-app").metadata.annotations?.[annotation.discard];
  const key = { tenantId: "a", workloadRef: "app", uid: "u" };
  const none = await discard();
  assert.equal([none.status, none.error], [404, 'tenant "a" has no claim on workload "app"']);
  for (const phase of ["Pending", "Active", "Releasing", "Error"] as const) {
    edge.cluster.addClaim({ ...key, status: { phase }, deleting: phase === "Releasing" });
    const refused = await discard();
    assert.is(refused.status, 409, phase);
    assert.match(refused.error ?? "", "has failed: there are no files to discard");
    assert.is(isDiscarded(), undefined);
  }
  const failed = { ...key, status: { phase: "ReleaseFailed" as const }, deleting: true };
  edge.cluster.addClaim(failed);
  // Somebody writes the claim meanwhile.
  edge.cluster.onNext("patch", () => void edge.cluster.addClaim(failed));
  const discarded = await discard();
  assert.is(discarded.status, 200, discarded.text);
  assert.equal(discarded.json, { status: "discarded", tenantId: "a" });
  assert.is(isDiscarded(), "true");
});

test("discard gives up the files of the release that is meant, not those of a later one", async () => {
  const edge = testEdge();
  const key = { tenantId: "a", workloadRef: "app", deleting: true };
  const status = { phase: "ReleaseFailed" as const };
  const discard = (uid: string) => edge.call("POST /api/v1/tenants/a/discard", { body: { workload: "app", uid } });
  edge.cluster.addClaim({ ...key, uid: "second", status });
  const refused = await discard("first");
  assert.is(refused.status, 409);
  assert.is(
    refused.error,
    'the requested claim of tenant "a" on workload "app" has ended, and another one exists now: read it first',
  );
  // The watch has yet to show the second one.
  edge.cluster.addClaim({ ...key, uid: "first", status });
  edge.cluster.lag = true;
  edge.cluster.addClaim({ ...key, uid: "second", status });
  assert.is((await discard("first")).status, 409);
  assert.is(edge.cluster.claim("claim-a-app").metadata.annotations?.[annotation.discard], undefined);
  edge.cluster.lag = false;
  edge.cluster.addClaim({ ...key, uid: "second", status });
  assert.is((await discard("second")).status, 200);
  assert.is(edge.cluster.claim("claim-a-app").metadata.annotations?.[annotation.discard], "true");
  assert.is((await discard("no uid")).status, 400);
});

test("discard decides on the claim as it is, not as the watch shows it", async () => {
  const edge = testEdge();
  edge.cluster.addClaim({ tenantId: "a", workloadRef: "app", status: { phase: "ReleaseFailed" }, deleting: true });
  edge.cluster.lag = true;
  edge.cluster.setStatus("claim-a-app", { phase: "Releasing" });
  const answer = await edge.call("POST /api/v1/tenants/a/discard", { body: { workload: "app" } });
  assert.is(answer.status, 409);
  assert.is((edge.cluster.claim("claim-a-app") as Claim).metadata.annotations?.[annotation.discard], undefined);
});

test("an instance in detail tells its node, its containers and its Events, as they are at this moment", async () => {
  const edge = testEdge();
  const pod = edge.cluster.addInstance("inst-a");
  const plain = (await edge.call("GET /api/v1/instances/inst-a")).json as object;
  Object.assign(pod.spec, { nodeName: "node-1" });
  Object.assign(pod.spec.containers[0] ?? {}, { resources: { limits: { cpu: "1" }, requests: { cpu: "500m" } } });
  edge.cluster.addEvent({ kind: "Pod", uid: pod.metadata.uid }, { reason: "Pulled", at: "2026-01-01T00:00:03Z" });
  const answer = await edge.call("GET /api/v1/instances/inst-a?detail=true");
  assert.is(answer.status, 200, answer.text);
  assert.equal(answer.json, {
    ...plain,
    node: "node-1",
    containers: [
      {
        ...{ name: "workload", image: "example.com/app:1", state: "running", ready: true, restarts: 0 },
        ...{ requests: { cpu: "500m" }, limits: { cpu: "1" } },
      },
    ],
    savedDirs: [],
    events: [{ about: "instance", type: "Normal", reason: "Pulled", message: "", at: "2026-01-01T00:00:03Z" }],
  });
  edge.cluster.remove(pods, "inst-a", { from: "api" });
  assert.is((await edge.call("GET /api/v1/instances/inst-a?detail=true")).status, 404);
});

test("an instance in detail tells what a release saves of it, whatever its workload says by now", async () => {
  const edge = testEdge();
  edge.cluster.addWorkload("app");
  const annotations = { [annotation.overlayDirs]: '["/data","/notes"]' };
  const pod = edge.cluster.addPod("inst-a", "Running", { annotations });
  const savedDirs = async () =>
    ((await edge.call("GET /api/v1/instances/inst-a?detail=true")).json as ApiTypes["InstanceDetail"]).savedDirs;
  assert.equal(await savedDirs(), ["/data", "/notes"]);
  Object.assign(pod.status ?? {}, { phase: "Failed" });
  assert.equal(await savedDirs(), [], "of one that has ended nothing can be read");
});

test("one claim tells when the API was asked for it, also once its timeline is of another pod", async () => {
  const edge = testEdge();
  const claim = edge.cluster.addClaim({ tenantId: "a", workloadRef: "app", attempt: "1" });
  const requestedAt = "2026-01-01T00:00:00.123Z";
  Object.assign(claim.metadata.annotations ?? {}, { [annotation.requestedAt]: requestedAt });
  const answer = await edge.call("GET /api/v1/tenants/a/claims/app");
  assert.is((answer.json as ApiTypes["ClaimDetail"]).requestedAt, requestedAt);
});

test.run();
