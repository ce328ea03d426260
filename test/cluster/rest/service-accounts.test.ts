// @waits
import { once } from "node:events";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { WebSocket } from "ws";
import { serviceAccounts } from "../../../crds/client/built-in-resources.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import { defineResource, type Resource } from "../../../crds/resource.ts";
import { eventually } from "../../eventually.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { type RestEdge, startRestEdge } from "./rest-edge.ts";

const test = suite("ServiceAccounts as callers on a real API server");
const AUDIENCE = "tenancy.dev";
const group = "rbac.authorization.k8s.io";
const roles: Resource<KubernetesObject> = defineResource({ group, version: "v1", plural: "roles", kind: "Role" });
const bindings: Resource<KubernetesObject> = defineResource({
  ...{ group, version: "v1", plural: "rolebindings", kind: "RoleBinding" },
});
const KINDS = ["tenancyclaims", "tenancyworkloads", "tenancypools", "tenancytriggers"];
let tenancy: Tenancy;
let edge: RestEdge;
const tokens: string[] = [];

test.before(async () => {
  tenancy = await startTenancy("rest-accounts", { nodes: false });
  edge = await startRestEdge("bun", {
    KUBECONFIG: tenancy.cluster.kubeconfigPath,
    TENANCY_SERVICE_ACCOUNTS: "on",
    TENANCY_WS_REQUIRE_KEY: "true",
  });
  const spec = { image: { ref: "simulated/hello:1" } };
  const { status, text } = await edge.call("POST /api/v1/workloads", { body: { name: "hello", spec } });
  assert.is(status, 201, text);
});
test.after(async () => {
  await edge?.stop();
  await tenancy?.stop();
});

/** An account with rights on kinds of `tenancy.dev`. */
async function account(name: string, verbsOf: Record<string, string[]>): Promise<void> {
  const { client } = tenancy;
  const metadata = { name, namespace: NAMESPACE };
  await client.create(serviceAccounts, { metadata });
  const rules = Object.entries(verbsOf).map(([resource, verbs]) => ({
    apiGroups: ["tenancy.dev"],
    resources: [resource],
    verbs,
  }));
  await client.create(roles, { metadata, rules } as KubernetesObject);
  await client.create(bindings, {
    metadata,
    roleRef: { apiGroup: group, kind: "Role", name },
    subjects: [{ kind: "ServiceAccount", name, namespace: NAMESPACE }],
  } as KubernetesObject);
}

/** A token as `kubectl create token` makes it. */
async function tokenOf(name: string, audiences: string[] = [AUDIENCE], namespace = NAMESPACE): Promise<string> {
  const { body } = await tenancy.client.request({
    method: "POST",
    path: `/api/v1/namespaces/${namespace}/serviceaccounts/${name}/token`,
    body: JSON.stringify({ spec: { audiences, expirationSeconds: 600 } }),
  });
  const { token } = JSON.parse(String(body)).status;
  tokens.push(token);
  return token;
}

/** How many of these the API server was asked to create since its start. */
async function created(resource: string): Promise<number> {
  const { body } = await tenancy.client.request({ method: "GET", path: "/metrics", accept: "text/plain" });
  const lines = String(body).matchAll(/^apiserver_request_total\{(.*)\} (\d+)$/gm);
  return [...lines].reduce(
    (sum, [, labels = "", count]) => sum + (labels.includes(`resource="${resource}"`) ? Number(count) : 0),
    0,
  );
}

const each = (verbs: string[]) => Object.fromEntries(KINDS.map((kind) => [kind, verbs]));

async function ask(key: string, route: string, more: { path?: string; body?: unknown } = {}) {
  const { status, json } = await edge.call(route, { ...more, key });
  return { status, error: (json as { error?: string } | undefined)?.error ?? "" };
}

async function statusOf(key: string, route: string, more: { path?: string; body?: unknown } = {}): Promise<number> {
  return (await ask(key, route, more)).status;
}

const extend = { path: "/api/v1/tenants/alice/extend", body: { workload: "hello", seconds: 60 } };

test("an account with all rights on the four kinds is as a key of the role platform", async () => {
  await account("all", each(["*"]));
  const key = await tokenOf("all");
  assert.is(await statusOf(key, "GET /api/v1/tenants"), 200);
  const spec = { image: { ref: "simulated/hello:2" } };
  assert.is(await statusOf(key, "POST /api/v1/workloads", { body: { name: "second", spec } }), 201);
  assert.is(await statusOf(key, "GET /api/v1/keys"), 403);
  assert.is(await statusOf(key, "GET /api/v1/debug/resources"), 403);
});

test("an account that may read them is a reader, and is told what it may not do", async () => {
  await account("reads", each(["get", "list"]));
  const key = await tokenOf("reads");
  assert.is(await statusOf(key, "GET /api/v1/workloads"), 200);
  assert.is(await statusOf(key, "POST /api/v1/tenants/{id}/extend", extend), 403);
  assert.is(await statusOf(key, "DELETE /api/v1/workloads/{name}", { path: "/api/v1/workloads/second" }), 403);
});

test("an account that may only write claims may only claim, extend and release, and names no Secrets", async () => {
  await account("claims", { tenancyclaims: ["create", "patch", "delete", "get", "list"] });
  const key = await tokenOf("claims");
  assert.is(await statusOf(key, "POST /api/v1/tenants/{id}/extend", extend), 404);
  assert.is(await statusOf(key, "GET /api/v1/tenants/{id}", { path: "/api/v1/tenants/alice" }), 200);
  assert.is(await statusOf(key, "GET /api/v1/claims"), 200);
  const claim = { path: "/api/v1/tenants/alice/claim" };
  const body = { workload: "none" };
  assert.is(await statusOf(key, "POST /api/v1/tenants/{id}/claim", { ...claim, body }), 404);
  const files = [{ path: "/f", secretRef: { name: "b", key: "k" } }];
  const naming = await ask(key, "POST /api/v1/tenants/{id}/claim", { ...claim, body: { ...body, files } });
  assert.is(naming.status, 403);
  assert.match(naming.error, "an account that may only claim may not name Secrets");
  for (const [route, path] of [
    ["GET /api/v1/workloads", "/api/v1/workloads"],
    ["GET /api/v1/tenants", "/api/v1/tenants"],
    ["POST /api/v1/tenants/{id}/discard", "/api/v1/tenants/alice/discard"],
    ["GET /api/v1/instances", "/api/v1/instances"],
  ] as const)
    assert.is(await statusOf(key, route, { path, ...(route.startsWith("POST") && { body }) }), 403, route);
  const denied = await statusOf(key, "GET /api/v1/instances", { path: "/api/v1/instances?tenant=alice" });
  assert.is(denied, 404);
});

test("an account without the rights is told the one that it lacks", async () => {
  await account("lacks", { ...each(["get", "list"]), tenancypools: ["get"] });
  const { status, error } = await ask(await tokenOf("lacks"), "GET /api/v1/workloads");
  assert.is(status, 403);
  assert.match(
    error,
    `system:serviceaccount:${NAMESPACE}:lacks has no role here: it may not list tenancypools.tenancy.dev`,
  );
  // Rights in another namespace are none here.
  await tenancy.client.create(serviceAccounts, { metadata: { name: "none", namespace: "default" } });
  assert.is(await statusOf(await tokenOf("none", [AUDIENCE], "default"), "GET /api/v1/workloads"), 403);
});

test("a token for the API server, a changed one, and one of another issuer are refused", async () => {
  for (const audiences of [[], ["https://kubernetes.default.svc.cluster.local"], ["another"]]) {
    const { status, error } = await ask(await tokenOf("all", audiences), "GET /api/v1/workloads");
    assert.is(status, 401, error);
    assert.match(error, "audience tenancy.dev");
  }
  const good = await tokenOf("all");
  const [header, payload, signature = ""] = good.split(".");
  const claims = JSON.parse(Buffer.from(payload ?? "", "base64url").toString());
  const reviews = await created("tokenreviews");
  const forged = Buffer.from(JSON.stringify({ ...claims, sub: `system:serviceaccount:${NAMESPACE}:all2` }));
  for (const text of [
    `${header}.${forged.toString("base64url")}.${signature}`,
    `${header}.${payload}.${signature.slice(0, -8)}AAAAAAAA`,
  ]) {
    const { status, error } = await ask(text, "GET /api/v1/workloads");
    assert.is(status, 401, error);
    assert.match(error, "the cluster has not signed it");
  }
  assert.is(await created("tokenreviews"), reviews, "the keys of the cluster are enough");
  assert.is(await statusOf(good, "GET /api/v1/workloads"), 200);
});

/** A WebSocket that the token opens. */
async function socketOf(token: string): Promise<WebSocket> {
  const socket = new WebSocket(`${edge.process.url.replace("http", "ws")}/ws?type=workload`, {
    headers: { authorization: `Bearer ${token}` },
  });
  await once(socket, "open");
  return socket;
}

/** More than one account was once allowed, each as a pod of it has one. */
const PODS = 120;

test("a deleted account ends on the edge with what it has opened, and so does one that loses its rights", async () => {
  await account("goes", each(["get", "list"]));
  await account("loses", each(["get", "list"]));
  await account("stays", each(["get", "list"]));
  const closed: Promise<number>[] = [];
  const stays: WebSocket[] = [];
  for (let pod = 0; pod < PODS; pod += 1) stays.push(await socketOf(await tokenOf("stays")));
  for (const name of ["goes", "loses"]) {
    const socket = await socketOf(await tokenOf(name));
    closed.push(once(socket, "close").then(([code]) => code));
  }
  const { client } = tenancy;
  const [tokenReviews, accessReviews] = [await created("tokenreviews"), await created("subjectaccessreviews")];
  await client.delete(serviceAccounts, { namespace: NAMESPACE, name: "goes" });
  await client.delete(bindings, { namespace: NAMESPACE, name: "loses" });
  assert.equal(await Promise.all(closed), [4401, 4401]);
  // The tokens of one account differ in what a real API server says of them, and share its rights all the same.
  await eventually(async () => (await created("tokenreviews")) - tokenReviews >= PODS);
  const [checks, rights] = [
    (await created("tokenreviews")) - tokenReviews,
    (await created("subjectaccessreviews")) - accessReviews,
  ];
  assert.ok(rights < 4 * checks, `${rights} SubjectAccessReviews for ${checks} tokens`);
  console.log(`note: ${checks} TokenReviews, ${rights} SubjectAccessReviews`);
  assert.ok(stays.every(({ readyState }) => readyState === WebSocket.OPEN));
  for (const socket of stays) socket.close();
  for (const name of ["goes", "loses"]) {
    const text = tokens.find((one) =>
      JSON.parse(Buffer.from(one.split(".")[1] ?? "", "base64url").toString()).sub.endsWith(`:${name}`),
    );
    await eventually(async () => [401, 403].includes(await statusOf(text ?? "", "GET /api/v1/workloads")));
  }
});

test("no edge has printed a token, and each answer was as documented", () => {
  assert.equal(edge.problems, []);
  for (const text of tokens) assert.not.ok(edge.process.lines.some((line) => line.includes(text.slice(-40))));
});

test.run();
