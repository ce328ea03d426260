// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import { secrets } from "../../../crds/client/built-in-resources.ts";
import { triggers } from "../../../crds/kinds.ts";
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
  const status = { phase: "Error", detail: "the path is taken", state: { offset: 7 } } as const;
  edge.cluster.add(triggers, { ...edge.cluster.read(triggers, "a"), status });
  assert.equal(((await edge.call("GET /api/v1/triggers/a")).json as { status: object }).status, {
    phase: "Error",
    detail: "the path is taken",
  });
});

test("the dump has every kind of the specification, and asks for nothing else", async () => {
  const edge = testEdge();
  edge.cluster.addWorkload("app");
  edge.cluster.addPod("p", "Running");
  edge.cluster.add(secrets, { metadata: { name: "s" } });
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
  assert.not.ok(edge.cluster.calls.some(({ kind }) => kind === "secrets"));
});

test("a list that the server drops while it is read is read anew", async () => {
  const edge = testEdge();
  edge.cluster.onNext("list", new ApiError("expired", { status: 410, reason: "Expired" }));
  assert.is((await edge.call("GET /api/v1/triggers")).status, 200);
  assert.equal(edge.cluster.verbs(), ["list", "list"]);
});

test.run();
