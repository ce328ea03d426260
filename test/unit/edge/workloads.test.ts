// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import { workloads } from "../../../crds/kinds.ts";
import { finalizer } from "../../../crds/labels.ts";
import type { Workload } from "../../../crds/workload.ts";
import { testEdge } from "./test-edge.ts";

const test = suite("workload routes");
const spec = { image: { ref: "example.com/app:1" } };
const shown = { name: "app", spec, status: { phase: "Creating" }, createdAt: "2026-01-01T00:00:00Z" };

test("POST creates with the finalizer, and answers 201 with what was stored", async () => {
  const edge = testEdge();
  const answer = await edge.call("POST /api/v1/workloads", { body: { name: "app", spec } });
  assert.is(answer.status, 201);
  assert.equal(answer.json, shown);
  const metadata = { name: "app", namespace: "tenancy", finalizers: [finalizer.inUse] };
  assert.equal(edge.cluster.calls, [
    { verb: "create", kind: "tenancyworkloads", name: "app", body: { metadata, spec } },
  ]);
});

test("a workload that was just created can be claimed, also before the watch shows it", async () => {
  const edge = testEdge();
  edge.cluster.lag = true;
  await edge.call("POST /api/v1/workloads", { body: { name: "app", spec } });
  assert.ok(edge.cluster.cache.workloads.store.get("tenancy/app"));
});

test("POST of a name that is taken is a 409 that says how to change it", async () => {
  const edge = testEdge();
  edge.cluster.addWorkload("app");
  const answer = await edge.call("POST /api/v1/workloads", { body: { name: "app", spec } });
  assert.is(answer.status, 409);
  assert.is(answer.error, 'workload "app" already exists; change it with PUT /api/v1/workloads/app');
});

test("POST of a name that is still being deleted is a 409 that says what it waits for", async () => {
  const edge = testEdge();
  await edge.call("POST /api/v1/workloads", { body: { name: "app", spec } });
  await edge.call("DELETE /api/v1/workloads/app");
  const answer = await edge.call("POST /api/v1/workloads", { body: { name: "app", spec } });
  assert.is(answer.status, 409);
  assert.match(answer.error ?? "", /^workload "app" is being deleted, and goes when no claim and no pool uses it/);
});

test("a bad body is a 400 that lists every problem", async () => {
  const cases: [unknown, RegExp | string][] = [
    [{ spec }, "body.name: is required"],
    [{ name: "app" }, "body.spec: is required"],
    [{ name: 5, spec }, "body.name: must be a string, got number"],
    [{ name: "App", spec }, /^body\.name: a workload's name is 1 to 63 lower-case/],
    [{ name: "a".repeat(64), spec }, /^body\.name: a workload's name is 1 to 63 lower-case/],
    [{ name: "app", spec: null }, /^body\.spec: must be an object/],
    [{ name: "app", spec: [] }, /^body\.spec: must be an object/],
    [{ name: "app", spec: "x" }, /^body\.spec: must be an object/],
    [{ name: "app", spec: {} }, /^body\.spec\.image: is required/],
    [{ name: "app", spec: { image: {} } }, /^body\.spec\.image: /],
    [{ name: "app", spec, extra: 1 }, /^body: unknown key "extra"/],
    [
      { name: "app", spec: { ...spec, resources: { vcpus: "2" }, idle: { action: "sleep" } } },
      /^body\.spec\.resources\.vcpus: .+; body\.spec\.idle\.action: /,
    ],
  ];
  for (const [body, error] of cases) {
    const edge = testEdge();
    const answer = await edge.call("POST /api/v1/workloads", { body });
    assert.is(answer.status, 400, JSON.stringify(body));
    if (typeof error === "string") assert.is(answer.error, error);
    else assert.match(answer.error ?? "", error);
    assert.equal(edge.cluster.calls, []);
  }
});

test("of thousands of problems, twenty are listed", async () => {
  const overlayDirs = Array.from({ length: 5000 }, (_, index) => `relative-${index}`);
  const answer = await testEdge().call("POST /api/v1/workloads", {
    body: { name: "app", spec: { ...spec, filesystem: { overlayDirs } } },
  });
  assert.is(answer.status, 400);
  assert.ok(answer.text.length < 10_000, `${answer.text.length} characters`);
});

test("what the API server refuses is a 400 with its message, without its frame", async () => {
  const edge = testEdge();
  const message = 'TenancyWorkload.tenancy.dev "app" is invalid: spec.version: Too long: may not be longer than 128';
  edge.cluster.onNext("create", new ApiError(message, { status: 422, reason: "Invalid" }));
  const answer = await edge.call("POST /api/v1/workloads", { body: { name: "app", spec } });
  assert.is(answer.status, 400);
  assert.is(answer.error, "spec.version: Too long: may not be longer than 128");
});

test("GET lists by name and shows one, with the reason of what is wrong", async () => {
  const edge = testEdge();
  for (const name of ["c", "app", "b"]) edge.cluster.addWorkload(name);
  const list = (await edge.call("GET /api/v1/workloads")).json as { name: string }[];
  assert.equal(
    list.map(({ name }) => name),
    ["app", "b", "c"],
  );
  assert.equal(list[0], shown);
  const workload = edge.cluster.read(workloads, "app");
  workload.status = { phase: "Error", reason: "ImagePullFailed", message: "no such image", observedGeneration: 3 };
  assert.equal((await edge.call("GET /api/v1/workloads/app")).json, {
    ...shown,
    status: { phase: "Error", reason: "ImagePullFailed", message: "no such image" },
  });
});

test("no such workload is a 404 that says how to create it", async () => {
  for (const method of ["GET", "PUT", "DELETE"]) {
    const body = method === "PUT" ? { body: { spec } } : {};
    const answer = await testEdge().call(`${method} /api/v1/workloads/app`, body);
    assert.is(answer.status, 404, method);
    assert.match(answer.error ?? "", /^workload "app" does not exist; create it with POST/);
  }
});

test("PUT replaces the spec and keeps the metadata", async () => {
  const edge = testEdge();
  edge.cluster.addWorkload("app");
  const before = edge.cluster.read(workloads, "app");
  before.metadata.labels = { team: "x" };
  before.metadata.finalizers = ["tenancy.dev/in-use"];
  const next = { image: { ref: "example.com/app:2" }, version: "2" };
  const answer = await edge.call("PUT /api/v1/workloads/app", { body: { spec: next } });
  assert.is(answer.status, 200);
  assert.equal(answer.json, { ...shown, spec: next });
  const after = edge.cluster.read(workloads, "app");
  const { resourceVersion = "", generation = 0 } = after.metadata;
  assert.equal(after.metadata, { ...before.metadata, resourceVersion, generation });
});

test("PUT takes back what GET gave", async () => {
  const edge = testEdge();
  edge.cluster.addWorkload("app");
  const { json } = await edge.call("GET /api/v1/workloads/app");
  assert.is((await edge.call("PUT /api/v1/workloads/app", { body: json })).status, 200);
});

test("PUT with another name than the path's is a 400", async () => {
  const edge = testEdge();
  edge.cluster.addWorkload("app");
  const answer = await edge.call("PUT /api/v1/workloads/app", { body: { name: "other", spec } });
  assert.is(answer.status, 400);
  assert.is(answer.error, 'body.name: must be "app" as in the path, got "other"; names cannot change');
  assert.equal(edge.cluster.calls, []);
});

test("PUT tries again where somebody else wrote in between, and gives up at last", async () => {
  const edge = testEdge();
  edge.cluster.addWorkload("app");
  const overtake = () => edge.cluster.add(workloads, bumped(edge.cluster.read(workloads, "app")), { hidden: true });
  for (let times = 0; times < 3; times += 1) edge.cluster.onNext("replace", overtake);
  assert.is((await edge.call("PUT /api/v1/workloads/app", { body: { spec } })).status, 200);
  assert.is(edge.cluster.verbs().filter((verb) => verb === "replace").length, 4);

  for (let times = 0; times < 5; times += 1) edge.cluster.onNext("replace", overtake);
  const answer = await edge.call("PUT /api/v1/workloads/app", { body: { spec } });
  assert.is(answer.status, 409);
  assert.is(answer.error, "the object was changed in the meantime; try again");
});

test("PUT does not try again what the API server refuses", async () => {
  const edge = testEdge();
  edge.cluster.addWorkload("app");
  edge.cluster.onNext("replace", new ApiError("spec.version: Too long", { status: 422, reason: "Invalid" }));
  const answer = await edge.call("PUT /api/v1/workloads/app", { body: { spec } });
  assert.is(answer.status, 400);
  assert.equal(edge.cluster.verbs(), ["get", "replace"]);
});

test("DELETE names what still holds the workload, which is Terminating from then on, whatever its status says", async () => {
  const edge = testEdge();
  await edge.call("POST /api/v1/workloads", { body: { name: "app", spec } });
  for (const tenantId of ["a", "b", "c", "d", "e"])
    edge.cluster.addClaim({ tenantId, workloadRef: "app", status: { phase: tenantId === "e" ? "Error" : "Active" } });
  edge.cluster.addClaim({ tenantId: "a", workloadRef: "other", status: { phase: "Active" } });
  edge.cluster.addPod("inst-a", "Running", { labels: { "tenancy.dev/workload": "app" } });
  assert.equal((await edge.call("DELETE /api/v1/workloads/app")).json, {
    status: "deleted",
    phase: "Terminating",
    message:
      "the workload is deleted when nothing uses it; in use by claims claim-a-app, claim-b-app, claim-c-app and 1 more: release its claims and delete its pools",
  });
  assert.ok(edge.cluster.read(workloads, "app").metadata.deletionTimestamp);
  const { status } = (await edge.call("GET /api/v1/workloads/app")).json as { status: object };
  assert.equal(status, { phase: "Terminating" });
});

test("DELETE answers deleted where nothing holds the workload", async () => {
  const edge = testEdge();
  await edge.call("POST /api/v1/workloads", { body: { name: "app", spec } });
  assert.equal((await edge.call("DELETE /api/v1/workloads/app")).json, { status: "deleted" });
  edge.cluster.addWorkload("free");
  assert.is((await edge.call("DELETE /api/v1/workloads/free")).status, 200);
  assert.is(edge.cluster.has(workloads, "free"), false);
});

function bumped(workload: Workload): Workload {
  return {
    ...workload,
    metadata: { ...workload.metadata, resourceVersion: `${Number(workload.metadata.resourceVersion) + 1000}` },
  };
}

test.run();
