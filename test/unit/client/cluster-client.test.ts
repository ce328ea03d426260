// @runtimes bun node deno
import { test } from "uvu";
import * as assert from "uvu/assert";
import { ApiError, isAlreadyExists, isConflict, isExpired, isNotFound } from "../../../crds/client/api-error.ts";
import { configMaps, leases, pods } from "../../../crds/client/built-in-resources.ts";
import { type ClusterClient, createClusterClient } from "../../../crds/client/cluster-client.ts";
import { createTransport, type RequestRecord, type Transport } from "../../../crds/client/transport.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import { answerJson, type FakeApiServer, type FakeRequest, startFakeApiServer } from "./fake-api-server.ts";

let server: FakeApiServer;
let transport: Transport;
let client: ClusterClient;
let answer: { status: number; body: unknown } = { status: 200, body: {} };
const records: RequestRecord[] = [];

test.before(async () => {
  server = await startFakeApiServer((_, response) => {
    if (typeof answer.body === "string") response.writeHead(answer.status).end(answer.body);
    else answerJson(response, answer.body, { status: answer.status });
  });
  transport = createTransport({ config: { server: server.url }, onRequest: (record) => records.push(record) });
  client = createClusterClient({ transport });
});

test.before.each(() => {
  answer = { status: 200, body: { metadata: {} } };
  server.requests.length = 0;
  records.length = 0;
});

test.after(async () => {
  transport.close();
  await server.close();
});

/** The last request: method, path with query, content type, body. */
function sent(): unknown[] {
  const { method, path, query, headers, body } = server.requests.at(-1) as FakeRequest;
  const target = query.size > 0 ? `${path}?${query}` : path;
  return [method, target, headers["content-type"], body === "" ? undefined : JSON.parse(body)];
}

async function failure(status: number, body: unknown): Promise<ApiError> {
  answer = { status, body };
  try {
    await client.get(configMaps, { namespace: "a", name: "x" });
  } catch (error) {
    if (error instanceof ApiError) return error;
    throw error;
  }
  throw new Error("it was accepted");
}

const ref = { namespace: "a", name: "x" };
const json = "application/json";

test("createClusterClient sends each call as the API server wants it", async () => {
  const full = { apiVersion: "v1", kind: "ConfigMap", metadata: ref };
  await client.get(configMaps, ref);
  assert.equal(sent(), ["GET", "/api/v1/namespaces/a/configmaps/x", undefined, undefined]);
  await client.create(configMaps, { metadata: ref, data: { b: "c" } }, { dryRun: true });
  const created = { ...full, data: { b: "c" } };
  assert.equal(sent(), ["POST", "/api/v1/namespaces/a/configmaps?dryRun=All", json, created]);
  await client.replace(configMaps, { metadata: ref });
  assert.equal(sent(), ["PUT", "/api/v1/namespaces/a/configmaps/x", json, full]);
  await client.apply(configMaps, { metadata: ref }, { fieldManager: "me", force: true });
  const applied = "/api/v1/namespaces/a/configmaps/x?fieldManager=me&force=true";
  assert.equal(sent(), ["PATCH", applied, "application/apply-patch+yaml", full]);
  await client.patch(configMaps, ref, { type: "merge", body: { data: null }, subresource: "status" });
  const patched = "/api/v1/namespaces/a/configmaps/x/status";
  assert.equal(sent(), ["PATCH", patched, "application/merge-patch+json", { data: null }]);
  await client.patch(configMaps, ref, { type: "json", body: [] });
  assert.equal(sent()[2], "application/json-patch+json");
  await client.create(leases, { metadata: ref });
  assert.equal((sent()[3] as KubernetesObject).apiVersion, "coordination.k8s.io/v1");
  assert.equal(
    records.map(({ verb, resource }) => `${verb} ${resource}`),
    ["get", "create", "update", "apply", "patch", "patch"].map((verb) => `${verb} configmaps`).concat("create leases"),
  );
});

test("ClusterClient.delete sends the preconditions it is given, and no others", async () => {
  await client.delete(pods, ref, {
    uid: "u",
    resourceVersion: "7",
    gracePeriodSeconds: 0,
  });
  const options = { apiVersion: "v1", kind: "DeleteOptions" };
  const preconditions = { uid: "u", resourceVersion: "7" };
  assert.equal(sent()[3], { ...options, preconditions, gracePeriodSeconds: 0 });
  await client.delete(pods, ref);
  assert.equal(sent(), ["DELETE", "/api/v1/namespaces/a/pods/x", json, options]);
});

test("ClusterClient.delete resolves with the object only while something keeps it", async () => {
  const deletionTimestamp = "2026-01-01T00:00:00Z";
  const kept = [
    { deletionTimestamp, deletionGracePeriodSeconds: 30 },
    { deletionTimestamp, deletionGracePeriodSeconds: 0, finalizers: ["a/b"] },
  ];
  for (const metadata of kept) {
    answer = { status: 200, body: { metadata } };
    assert.equal((await client.delete(pods, ref))?.metadata, metadata);
  }
  const gone = [
    { kind: "Status", status: "Success", metadata: {} },
    { kind: "Status", status: "Success" },
    { metadata: { name: "x" } },
    { metadata: { deletionTimestamp, deletionGracePeriodSeconds: 0 } },
  ];
  for (const body of gone) {
    answer = { status: 200, body };
    assert.is(await client.delete(pods, ref), undefined);
  }
});

test("ClusterClient.list takes an old server's null for an empty list, and drops managedFields", async () => {
  answer = { status: 200, body: { metadata: { resourceVersion: "5" }, items: null } };
  assert.equal((await client.list(pods)).items, []);
  answer = {
    status: 200,
    body: { metadata: { resourceVersion: "5" }, items: [{ metadata: { name: "x", managedFields: [] } }] },
  };
  assert.equal((await client.list(pods, { namespace: "a", limit: 5 })).items, [{ metadata: { name: "x" } }]);
  assert.is(sent()[1], "/api/v1/namespaces/a/pods?limit=5");
});

test("createClusterClient refuses to address a whole collection by mistake", async () => {
  const nameless = { namespace: "a", name: "" };
  const calls: (() => Promise<unknown>)[] = [
    () => client.get(pods, nameless),
    () => client.delete(pods, nameless),
    () => client.delete(pods, { name: "x" }),
    () => client.patch(pods, nameless, { type: "merge", body: {} }),
    () => client.create(configMaps, { metadata: { name: "x" } }),
  ];
  for (const call of calls) {
    const error = await call().catch((cause: unknown) => cause);
    assert.instance(error, TypeError);
    assert.match(String(error), /it has no (name|namespace)/);
  }
  assert.is(server.requests.length, 0);
});

test("createClusterClient throws what the API server says", async () => {
  const details = { name: "x", kind: "configmaps", causes: [{ field: "data", message: "too long" }] };
  const error = await failure(422, {
    kind: "Status",
    message: "it is too long",
    reason: "Invalid",
    code: 422,
    details,
  });
  assert.equal(
    [error.status, error.reason, error.message, error.statusDetails],
    [422, "Invalid", "it is too long", details],
  );
});

test("createClusterClient throws what another server says, with what was asked", async () => {
  const page = await failure(502, "<h1>Bad Gateway</h1>\n");
  const asked = "GET /api/v1/namespaces/a/configmaps/x was answered with";
  assert.equal([page.status, page.reason, page.message], [502, "", `${asked} 502: <h1>Bad Gateway</h1>`]);
  assert.is((await failure(503, "")).message, `${asked} 503: nothing`);
  assert.is((await failure(500, {})).message, `${asked} 500`);
  assert.is((await failure(500, null)).message, `${asked} 500`);
  assert.is((await failure(302, "moved")).status, 302);
  assert.is((await failure(200, "no JSON")).message, `${asked} 200: no JSON`);
  assert.ok((await failure(500, "x".repeat(100_000))).message.length < 500);
});

test("isNotFound and its siblings tell refusals apart", async () => {
  const refusals = await Promise.all(
    (
      [
        [404, "NotFound"],
        [409, "Conflict"],
        [409, "AlreadyExists"],
        [410, "Expired"],
      ] as const
    ).map(([status, reason]) => new ApiError("no", { status, reason })),
  );
  for (const [index, is] of [isNotFound, isConflict, isAlreadyExists, isExpired].entries())
    assert.equal(
      refusals.map(is),
      refusals.map((_, at) => at === index),
    );
  assert.is(isNotFound(new Error("404")), false);
  const invalid = (field: string) =>
    new ApiError("no", { status: 422, reason: "Invalid", details: { causes: [{ field }] } });
  assert.is(isConflict(invalid("metadata.uid")), true, "another object has taken the name");
  assert.is(isConflict(invalid("spec.nodeName")), false);
});

test("ClusterClient.request gives a raw answer, and throws where it is a refusal", async () => {
  answer = { status: 200, body: "ok" };
  const ready = await client.request({ method: "GET", path: "/readyz" });
  assert.equal([ready.status, ready.body.toString()], [200, "ok"]);
  answer = { status: 500, body: "[-]etcd failed" };
  const error = await client.request({ method: "GET", path: "/readyz" }).catch((cause: unknown) => cause);
  assert.instance(error, ApiError);
  assert.match(String(error), "GET /readyz was answered with 500: [-]etcd failed");
});

test.run();
