// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import { testEdge } from "./test-edge.ts";

const test = suite("triggers and the debug dump");
const spec = {
  type: "webhook",
  workloadRef: "app",
  tenant: { from: "repository.owner.login", prefix: "gh-" },
  config: { path: "/hooks/a", secretRef: { name: "hook", key: "secret" } },
};

test("a trigger is made, listed, read and deleted", async () => {
  const edge = testEdge();
  const created = await edge.call("POST /api/v1/triggers", { body: { name: "b", spec } });
  assert.is(created.status, 201, created.text);
  const shown = { name: "b", spec, status: {}, createdAt: "2026-01-01T00:00:00Z" };
  assert.equal(created.json, shown);
  await edge.call("POST /api/v1/triggers", { body: { name: "a", spec } });
  assert.equal((await edge.call("GET /api/v1/triggers")).json, [{ ...shown, name: "a" }, shown]);
  assert.equal((await edge.call("GET /api/v1/triggers/b")).json, shown);
  assert.equal((await edge.call("DELETE /api/v1/triggers/b")).json, { status: "deleted" });
  for (const method of ["GET", "DELETE"]) {
    const gone = await edge.call(`${method} /api/v1/triggers/b`);
    assert.is(gone.status, 404);
    assert.match(gone.error ?? "", /^trigger "b" does not exist; create it with POST/);
  }
});

test("the gateway's word on a trigger shows, what its adapter remembers does not", async () => {
  const edge = testEdge();
  await edge.call("POST /api/v1/triggers", { body: { name: "a", spec } });
  const trigger = edge.cluster.claim("a");
  Object.assign(trigger, { status: { phase: "Error", detail: "the path is taken", state: { offset: 7 } } });
  assert.equal(((await edge.call("GET /api/v1/triggers/a")).json as { status: object }).status, {
    phase: "Error",
    detail: "the path is taken",
  });
});

test("a name that is taken is a 409 that says what to do", async () => {
  const edge = testEdge();
  await edge.call("POST /api/v1/triggers", { body: { name: "a", spec } });
  const second = await edge.call("POST /api/v1/triggers", { body: { name: "a", spec } });
  assert.is(second.status, 409);
  assert.match(second.error ?? "", /change it with PUT \/api\/v1\/triggers\/a/);
});

test("what is wrong with a trigger is a 400 that names the place, before any call", async () => {
  const edge = testEdge();
  for (const [body, message] of [
    [{ spec }, /^body\.name: is required/],
    [{ name: "A", spec }, /^body\.name: a trigger's name is/],
    [{ name: "a" }, /^body\.spec: is required/],
    [{ name: "a", spec: { ...spec, type: "email" } }, /^body\.spec\.type: must be one of webhook, messenger, cron/],
    [{ name: "a", spec: { ...spec, config: {} } }, /^body\.spec\.config\.path: a webhook trigger needs/],
    [{ name: "a", spec: { ...spec, tenant: {} } }, /^body\.spec\.tenant: give exactly one of from and static/],
    [{ name: "a", spec: { ...spec, sepc: 1 } }, /^body\.spec\.sepc: is not a field/],
    [{ name: "a", spec, more: 1 }, /^body: unknown key "more"/],
  ] as const) {
    const answer = await edge.call("POST /api/v1/triggers", { body });
    assert.is(answer.status, 400, answer.text);
    assert.match(answer.error ?? "", message);
  }
  for (const name of ["A", "a_b", "-a"]) {
    assert.is((await edge.call(`GET /api/v1/triggers/${name}`)).status, 400);
    assert.is((await edge.call(`DELETE /api/v1/triggers/${name}`)).status, 400);
  }
  assert.equal(edge.cluster.calls, []);
});

test("the dump has every kind of the specification, and asks for nothing else", async () => {
  const edge = testEdge();
  edge.cluster.addWorkload("app");
  edge.cluster.addPod("p", "Running");
  edge.cluster.objects.set("tenancy/s", { kind: "Secret", metadata: { name: "s", namespace: "tenancy" } });
  const answer = await edge.call("GET /api/v1/debug/resources");
  const dump = answer.json as Record<string, { metadata: { name: string } }[]>;
  assert.equal(Object.keys(dump), [
    "pods",
    "services",
    "configMaps",
    "persistentVolumeClaims",
    "networkPolicies",
    "workloads",
    "pools",
    "claims",
    "triggers",
  ]);
  assert.is(dump.pods?.[0]?.metadata.name, "p");
  assert.is(dump.workloads?.[0]?.metadata.name, "app");
  assert.not.ok(edge.cluster.calls.some(({ name }) => name === "secrets"));
});

test("a list that the server drops while it is read is read anew", async () => {
  const edge = testEdge();
  edge.cluster.onNext("list", new ApiError("expired", { status: 410, reason: "Expired" }));
  assert.is((await edge.call("GET /api/v1/triggers")).status, 200);
  assert.equal(edge.cluster.verbs(), ["list", "list"]);
});

test.run();
