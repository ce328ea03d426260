// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import { configMaps, networkPolicies, pods } from "../../../crds/client/built-in-resources.ts";
import { answerCache, type Cluster, createCluster } from "../../../crds/client/cluster.ts";
import { createClusterClient } from "../../../crds/client/cluster-client.ts";
import { createTransport, type Transport } from "../../../crds/client/transport.ts";
import { claims } from "../../../crds/kinds.ts";
import type { ConfigMap, KubernetesObject, Pod } from "../../../crds/kubernetes.ts";
import { errorOf } from "../../error-of.ts";
import { answerJson, type FakeApiServer, startFakeApiServer } from "./fake-api-server.ts";

const test = suite("createCluster");
let server: FakeApiServer;
let transport: Transport;
let cluster: Cluster;
/** Names of what went into the caches. */
let stored: string[] = [];
let answers: { status: number; body: unknown }[] = [];

test.before(async () => {
  server = await startFakeApiServer((_, response) => {
    const { status, body } = answers.shift() ?? { status: 200, body: { metadata: { name: "answer" } } };
    answerJson(response, body, { status });
  });
  transport = createTransport({ config: { server: server.url } });
  const put = ({ metadata }: KubernetesObject) => void stored.push(metadata.name);
  cluster = createCluster({
    client: createClusterClient({ transport }),
    namespace: "n",
    fieldManager: "me",
    caches: [claims, configMaps, networkPolicies, pods].map((resource) =>
      answerCache<KubernetesObject>(resource, { put }),
    ),
  });
});

test.before.each(() => {
  answers = [];
  stored = [];
  server.requests.length = 0;
});

test.after(async () => {
  transport.close();
  await server.close();
});

const metadata = { name: "x", namespace: "n", uid: "u", resourceVersion: "7" };
const pod: Pod = { metadata, spec: { containers: [] } };
const claim = { metadata, spec: { tenantId: "t", workloadRef: "w" } };
const claimPath = "/apis/tenancy.dev/v1alpha1/namespaces/n/tenancyclaims/x";
const podPath = "/api/v1/namespaces/n/pods/x";
const merge = "application/merge-patch+json";

/** The requests: method, path with query, content type, body; and what was stored since. */
function sent(): unknown[] {
  const requests = server.requests.splice(0).map(({ method, path, query, headers, body }) => {
    const target = query.size > 0 ? `${path}?${query}` : path;
    return [method, target, headers["content-type"], body === "" ? undefined : JSON.parse(body)];
  });
  return [...requests, stored.splice(0)];
}

test("a write to an object that was read has its version as precondition, and its answer is stored", async () => {
  await cluster(claims).of(claim).patchStatus({ phase: "Active", reason: null });
  const status = { phase: "Active", reason: null };
  assert.equal(sent(), [
    ["PATCH", `${claimPath}/status`, merge, { metadata: { resourceVersion: "7" }, status }],
    ["answer"],
  ]);
  await cluster(pods)
    .of(pod)
    .patch({ metadata: { labels: { a: "b", c: null } } });
  const labels = { a: "b", c: null };
  assert.equal(sent(), [["PATCH", podPath, merge, { metadata: { labels, resourceVersion: "7" } }], ["answer"]]);
  await cluster(pods)
    .of(pod)
    .patch({ spec: { nodeName: "m" } }, { precondition: "uid", subresource: "status" });
  const patch = { metadata: { uid: "u" }, spec: { nodeName: "m" } };
  assert.equal(sent(), [["PATCH", `${podPath}/status`, merge, patch], ["answer"]]);
  const configMap: ConfigMap = { metadata: { ...metadata, resourceVersion: "8" }, data: { a: "b" } };
  await cluster(configMaps).of(pod).replace(configMap);
  const whole = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { a: "b" } };
  assert.equal(sent(), [["PUT", "/api/v1/namespaces/n/configmaps/x", "application/json", whole], ["answer"]]);
});

test("a write to a name has no precondition", async () => {
  await cluster(pods)
    .named("x")
    .patch({ metadata: { labels: { a: "b" } } });
  assert.equal(sent(), [["PATCH", podPath, merge, { metadata: { labels: { a: "b" } } }], ["answer"]]);
  await cluster(claims).named("x").patchStatus({ phase: "Error" });
  assert.equal(sent(), [["PATCH", `${claimPath}/status`, merge, { status: { phase: "Error" } }], ["answer"]]);
  const operation = { op: "test", path: "/metadata/uid", value: "u" } as const;
  await cluster(claims).named("x").patchJson([operation], { subresource: "status" });
  assert.equal(sent(), [["PATCH", `${claimPath}/status`, "application/json-patch+json", [operation]], ["answer"]]);
  await cluster(pods).in("other").named("x").delete({ gracePeriodSeconds: 0 });
  const options = { apiVersion: "v1", kind: "DeleteOptions", gracePeriodSeconds: 0 };
  assert.equal(sent(), [["DELETE", "/api/v1/namespaces/other/pods/x", "application/json", options], []]);
});

test("an object without what the precondition needs is not written", async () => {
  const unread = { metadata: { name: "x" } };
  const writes = [
    () => cluster(pods).of(unread).patch({}),
    () => cluster(claims).of(unread).patchStatus({}),
    () => cluster(pods).of(unread).replace(pod),
    () => cluster(pods).of(unread).delete(),
    () =>
      cluster(pods)
        .of({ metadata: { name: "x", uid: "u" } })
        .delete({ precondition: "resourceVersion" }),
  ];
  for (const write of writes)
    assert.match(String(await errorOf(write())), /^TypeError: Cannot write the .* is unknown$/);
  assert.equal(sent(), [[]]);
});

test("of a deletion, 404 and 409 are answers", async () => {
  const refused = (status: number, reason: string) => ({ status, body: { kind: "Status", reason, message: reason } });
  const kept = {
    metadata: { ...metadata, name: "kept", deletionTimestamp: "2026-01-01T00:00:00Z", finalizers: ["a/b"] },
  };
  answers = [
    { status: 200, body: kept },
    { status: 200, body: { kind: "Status" } },
  ];
  assert.equal(await cluster(pods).of(pod).delete(), { outcome: "deleting", object: kept });
  assert.equal(await cluster(pods).of(pod).delete({ precondition: "resourceVersion" }), { outcome: "deleted" });
  const options = { apiVersion: "v1", kind: "DeleteOptions" };
  assert.equal(sent(), [
    ["DELETE", podPath, "application/json", { ...options, preconditions: { uid: "u" } }],
    ["DELETE", podPath, "application/json", { ...options, preconditions: { uid: "u", resourceVersion: "7" } }],
    ["kept"],
  ]);
  answers = [refused(404, "NotFound"), refused(409, "Conflict"), refused(404, "NotFound")];
  assert.is((await cluster(pods).of(pod).delete()).outcome, "notFound");
  const conflict = await cluster(pods).of(pod).delete();
  assert.is(conflict.outcome, "conflict");
  assert.is(conflict.error?.status, 409);
  assert.is((await cluster(pods).named("x").delete()).outcome, "notFound");
  // Where nothing was asked for, a conflict is another failure.
  answers = [refused(409, "Conflict"), refused(403, "Forbidden")];
  assert.instance(await errorOf(cluster(pods).named("x").delete()), ApiError);
  assert.instance(await errorOf(cluster(pods).of(pod).delete()), ApiError);
});

test("an object is applied by one field manager, which takes fields over; another one does not", async () => {
  const policy = { metadata: { name: "x", namespace: "n" }, spec: { podSelector: {} } };
  await cluster(networkPolicies).apply(policy);
  await cluster(networkPolicies).apply(policy, { fieldManager: "former" });
  const path = "/apis/networking.k8s.io/v1/namespaces/n/networkpolicies/x";
  const whole = { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", ...policy };
  assert.equal(sent(), [
    ["PATCH", `${path}?fieldManager=me&force=true`, "application/apply-patch+yaml", whole],
    ["PATCH", `${path}?fieldManager=former`, "application/apply-patch+yaml", whole],
    ["answer", "answer"],
  ]);
});

test("what was created is stored, unless the server only checked it", async () => {
  await cluster(pods).create(pod);
  await cluster(pods).create(pod, { dryRun: true });
  const whole = { apiVersion: "v1", kind: "Pod", ...pod };
  assert.equal(sent(), [
    ["POST", "/api/v1/namespaces/n/pods", "application/json", whole],
    ["POST", "/api/v1/namespaces/n/pods?dryRun=All", "application/json", whole],
    ["answer"],
  ]);
});

test("an answer that shows an object after its end is not stored", async () => {
  const ended = { ...metadata, deletionTimestamp: "2026-01-01T00:00:00Z" };
  answers = [
    { status: 200, body: { metadata: { ...ended, deletionGracePeriodSeconds: 0 } } },
    { status: 200, body: { metadata: { ...ended, deletionGracePeriodSeconds: 30 } } },
  ];
  for (const finalizers of [[], []]) await cluster(claims).of(claim).patch({ metadata: { finalizers } });
  assert.equal(stored, ["x"]);
});

test("a read is stored only where the call says so", async () => {
  const missing = { status: 404, body: { kind: "Status", reason: "NotFound" } };
  await cluster(pods).named("x").get();
  await cluster(pods).of(pod).find();
  const read = ["GET", podPath, undefined, undefined];
  assert.equal(sent(), [read, read, []]);
  await cluster(pods).of(pod).get({ refresh: true });
  await cluster(pods).named("x").find({ refresh: true });
  assert.equal(sent(), [read, read, ["answer", "answer"]]);
  answers = [missing, missing];
  assert.is(await cluster(pods).of(pod).find({ refresh: true }), undefined);
  assert.instance(await errorOf(cluster(pods).of(pod).get({ refresh: true })), ApiError);
  assert.equal(stored, []);
});

test("a list is read in pages, and once more where the server has dropped it", async () => {
  const page = (name: string, next?: string) => ({
    status: 200,
    body: { metadata: { resourceVersion: "9", ...(next && { continue: next }) }, items: [{ metadata: { name } }] },
  });
  answers = [
    page("a", "more"),
    { status: 410, body: { kind: "Status", reason: "Expired" } },
    page("a", "more"),
    page("b"),
  ];
  const list = await cluster(pods).list({ labelSelector: "l=1", refresh: true });
  assert.equal([list.items.map((one) => one.metadata.name), list.resourceVersion], [["a", "b"], "9"]);
  const path = "/api/v1/namespaces/n/pods?labelSelector=l%3D1&limit=500";
  const [first, second] = [
    ["GET", path, undefined, undefined],
    ["GET", `${path}&continue=more`, undefined, undefined],
  ];
  assert.equal(sent(), [first, second, first, second, ["a", "b"]]);
  answers = [page("a", "more")];
  assert.is((await cluster(pods).list({ limit: 1 })).items.length, 1);
  assert.equal(sent(), [["GET", "/api/v1/namespaces/n/pods?limit=1", undefined, undefined], []]);
});

test.run();
