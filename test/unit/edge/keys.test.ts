// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import { secrets } from "../../../crds/client/built-in-resources.ts";
import { newKey } from "../access/key-secrets.ts";
import { KEYS_NAMESPACE } from "./fake-cluster.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("/api/v1/keys");

const body = {
  name: "alice's laptop",
  role: "tenant",
  tenants: ["alice", "team-*"],
  workloads: ["web", "api-*"],
  requestsPerSecond: 5,
};

interface Created {
  readonly id: string;
  readonly key: string;
}

async function create(edge: TestEdge, more: object = {}) {
  const answer = await edge.call("POST /api/v1/keys", { body: { ...body, ...more } });
  assert.is(answer.status, 201, answer.text);
  return { ...answer, json: answer.json as Created };
}

test("only the answer to the creation has the key, and the Secret has its digest", async () => {
  const edge = testEdge({ hasKeys: true });
  const { json, headers } = await create(edge, { expiresInSeconds: 60 });
  const { key, ...rest } = json;
  const shown = { ...rest, ...body, createdAt: "2026-01-01T00:00:00Z", expiresAt: "2026-01-01T00:01:00.000Z" };
  assert.equal(rest, shown);
  assert.match(key, new RegExp(`^tk_${json.id}_[-\\w]{43}$`));
  assert.is(headers.get("cache-control"), "no-store");
  assert.equal((await edge.call("GET /api/v1/keys")).json, [shown]);
  assert.equal((await edge.call(`GET /api/v1/keys/${json.id}`)).json, shown);

  const secret = edge.cluster.read(secrets, `key-${json.id}`, KEYS_NAMESPACE);
  assert.is(secret.type, "tenancy.dev/key");
  assert.equal(secret.metadata.labels, { "tenancy.dev/use": "key" });
  const content = Buffer.from(secret.data?.["key.json"] ?? "", "base64").toString("utf8");
  assert.match(content, /"sha256":"[0-9a-f]{64}"/);
  assert.not.match(content, key.slice(-43));
  assert.not.match(JSON.stringify(edge.log), key.slice(-43));
});

test("the list is sorted by id, and a deleted key is in none", async () => {
  const edge = testEdge({ hasKeys: true });
  const made = [];
  for (const role of ["admin", "platform", "reader"])
    made.push((await create(edge, { role, tenants: undefined, workloads: undefined })).json.id);
  const listed = async () => ((await edge.call("GET /api/v1/keys")).json as Created[]).map(({ id }) => id);
  assert.equal(await listed(), [...made].sort());
  const [id = "", ...others] = made;
  // The watch has not shown the deletion yet.
  edge.cluster.lag = true;
  const deleted = await edge.call(`DELETE /api/v1/keys/${id}`);
  assert.equal([deleted.status, deleted.json], [200, { status: "deleted", id }]);
  assert.equal(await listed(), others.sort());
  for (const method of ["GET", "DELETE"]) {
    const { status, error } = await edge.call(`${method} /api/v1/keys/${id}`);
    assert.is(status, 404);
    assert.is(error, `key "${id}" does not exist`);
  }
});

test("a Secret that is no key is not listed, and its id says why; it can be deleted", async () => {
  const edge = testEdge({ hasKeys: true });
  const { id, secretAt } = newKey();
  const { metadata, ...rest } = secretAt(1);
  edge.cluster.add(secrets, { ...rest, metadata: { ...metadata, namespace: KEYS_NAMESPACE }, data: {} });
  assert.equal((await edge.call("GET /api/v1/keys")).json, []);
  assert.match((await edge.call(`GET /api/v1/keys/${id}`)).error ?? "", `Secret key-${id} in namespace`);
  assert.is((await edge.call(`DELETE /api/v1/keys/${id}`)).status, 200);
});

test("refuses a body that breaks a rule of keys, and an id that can be none", async () => {
  const edge = testEdge({ hasKeys: true });
  for (const [more, message] of [
    [{ tenants: undefined }, "body.tenants: required for the role tenant"],
    [{ role: "admin" }, "body.tenants: not allowed for the role admin"],
    [{ tenants: ["*"] }, "body.tenants.0: must be a tenant id"],
    [{ role: "platform", tenants: undefined }, "body.workloads: not allowed for the role platform"],
    [{ workloads: ["Web"] }, "body.workloads.0: must be the name of a workload"],
    [{ requestsPerSecond: 0 }, "body.requestsPerSecond: must be at least 1"],
    [{ expiresInSeconds: 0 }, "body.expiresInSeconds: must be at least 1"],
    [{ name: "a\nb" }, "body.name: must be 1 to 63 characters on one line"],
    [{ key: "mine" }, 'unknown key "key"'],
  ] as const) {
    const { status, error } = await edge.call("POST /api/v1/keys", { body: { ...body, ...more } });
    assert.is(status, 400);
    assert.match(error ?? "", message);
  }
  assert.is((await edge.call("GET /api/v1/keys/tenancy-api-key")).status, 400);
  assert.is(edge.cluster.calls.length, 0);
});

const routes = [
  "POST /api/v1/keys",
  "GET /api/v1/keys",
  ...["GET", "DELETE"].map((one) => `${one} /api/v1/keys/${"a".repeat(16)}`),
];

test("says which setting, right or namespace is missing, and refuses while keys may be stale", async () => {
  const without = testEdge();
  for (const route of routes) {
    const { status, error } = await without.call(route, route.startsWith("POST") ? { body } : {});
    assert.is(status, 404);
    assert.match(error ?? "", "set TENANCY_KEYS_NAMESPACE");
  }
  const edge = testEdge({ hasKeys: true });
  const ask = async (verb: "get" | "create", fault: ApiError) => {
    edge.cluster.onNext(verb, fault);
    return edge.call(verb === "get" ? (routes[2] ?? "") : "POST /api/v1/keys", { ...(verb === "create" && { body }) });
  };
  for (const verb of ["get", "create"] as const) {
    const message = `secrets is forbidden: User "x" cannot ${verb} resource "secrets" in API group "" in the namespace "k"`;
    const { status, error } = await ask(verb, new ApiError(message, { status: 403, reason: "Forbidden" }));
    assert.is(status, 503);
    assert.match(error ?? "", "the edge may not use Secrets in namespace tenancy-keys: apply manifests/keys");
  }
  const quota = new ApiError("exceeded quota: a", { status: 403, reason: "Forbidden" });
  assert.match((await ask("create", quota)).error ?? "", "quota");
  const gone = new ApiError('namespaces "tenancy-keys" not found', { status: 404, reason: "NotFound" });
  assert.match((await ask("create", gone)).error ?? "", "namespace tenancy-keys of the keys does not exist");
  edge.cluster.isFresh = false;
  const stale = await edge.call("GET /api/v1/keys");
  assert.is(stale.status, 503);
  assert.is(stale.headers.get("retry-after"), "1");
});

test.run();
