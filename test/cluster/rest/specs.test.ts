import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ifFound } from "../../../crds/client/api-error.ts";
import { events } from "../../../crds/client/built-in-resources.ts";
import { pools, triggers, workloads } from "../../../crds/kinds.ts";
import type { ApiTypes } from "../../../edge/api/openapi/schemas.ts";
import { eventually } from "../../eventually.ts";
import { exists, NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { KEY, type RestEdge, startRestEdge } from "./rest-edge.ts";

const test = suite("specs and one claim on a real API server");
let tenancy: Tenancy;
let edge: RestEdge;

test.before(async () => {
  tenancy = await startTenancy("rest-specs", { nodes: false });
  edge = await startRestEdge("bun", { KUBECONFIG: tenancy.cluster.kubeconfigPath });
});

test.after(async () => {
  await edge?.stop();
  await tenancy?.stop();
});

async function call(target: string, body?: object, headers: Record<string, string> = {}) {
  const [method = "", path = ""] = target.split(" ");
  const response = await fetch(`${edge.process.url}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json", ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, etag: response.headers.get("etag") ?? "", text, json: JSON.parse(text) };
}

const hook = { type: "webhook", workloadRef: "app", tenant: { static: "a" }, config: { path: "/hooks/a" } };
const kinds = [
  {
    resource: workloads,
    path: "/workloads",
    spec: { image: { ref: "a:1" } },
    next: { image: { ref: "a:2" } },
    status: { phase: "Ready" },
  },
  {
    resource: pools,
    path: "/pools",
    spec: { workloadRef: "app", size: 1 },
    next: { workloadRef: "app", size: 2 },
    status: { phase: "Ready", ready: 1 },
  },
  {
    resource: triggers,
    path: "/triggers",
    spec: hook,
    next: { ...hook, config: { path: "/hooks/b" } },
    status: { phase: "Active" },
  },
] as const;

for (const { resource, path, spec, next, status } of kinds) {
  test(`${path}: a write is made only over what was read, and a dry run makes none`, async () => {
    const ref = { namespace: NAMESPACE, name: "x" };
    assert.is((await call(`POST ${path}?dryRun=true`, { name: "x", spec })).status, 201);
    assert.not.ok(await exists<never>(tenancy.client, resource as never, "x"));

    const created = await call(`POST ${path}`, { name: "x", spec });
    assert.is(created.status, 201, created.text);
    assert.is((await call(`POST ${path}?dryRun=true`, { name: "x", spec })).status, 409);
    await tenancy.client.patch<never>(resource as never, ref, {
      type: "merge",
      subresource: "status",
      body: { status },
    });
    assert.is((await call(`GET ${path}/x`)).etag, created.etag);

    const tried = await call(`PUT ${path}/x?dryRun=true`, { spec: next }, { "if-match": created.etag });
    assert.is(tried.status, 200, tried.text);
    assert.equal((await call(`GET ${path}/x`)).etag, created.etag);

    const replaced = await call(`PUT ${path}/x`, { spec: next }, { "if-match": created.etag });
    assert.is(replaced.status, 200, replaced.text);
    assert.not.equal(replaced.etag, created.etag);
    const late = await call(`PUT ${path}/x`, { spec }, { "if-match": created.etag });
    assert.is(late.status, 409);
    assert.match(late.text, "has changed since it was read");
    assert.is((await call(`DELETE ${path}/x`, undefined, { "if-match": created.etag })).status, 409);
    // Another object of the same name has another tag.
    await tenancy.client.delete<never>(resource as never, ref);
    // No operator lets the workload go.
    const body = { metadata: { finalizers: [] } };
    await ifFound(tenancy.client.patch<never>(resource as never, ref, { type: "merge", body }));
    const again = await call(`POST ${path}`, { name: "x", spec });
    assert.is(again.status, 201, again.text);
    assert.is((await call(`PUT ${path}/x`, { spec: next }, { "if-match": created.etag })).status, 409);
    assert.is((await call(`DELETE ${path}/x`, undefined, { "if-match": created.etag })).status, 409);
    const deleted = await call(`DELETE ${path}/x`, undefined, { "if-match": again.etag });
    assert.is(deleted.status, 200, deleted.text);
  });
}

test("one claim tells the Events of it and of its pod", async () => {
  const claim = await tenancy.createClaim("a", "app");
  const ref = { namespace: NAMESPACE, name: claim.metadata.name };
  for (const [name, uid, kind] of [
    ["of-claim", claim.metadata.uid, "TenancyClaim"],
    ["of-other", "00000000-0000-0000-0000-000000000000", "TenancyClaim"],
  ] as const)
    await tenancy.client.create(events, {
      metadata: { name, namespace: NAMESPACE },
      involvedObject: { kind, namespace: NAMESPACE, name: ref.name, ...(uid !== undefined && { uid }) },
      ...{ reason: name, message: "words", type: "Warning", lastTimestamp: "2026-01-01T00:00:00Z", count: 2 },
    } as never);
  let shown: ApiTypes["ClaimDetail"] | undefined;
  await eventually(async () => {
    const answer = await call("GET /tenants/a/claims/app");
    shown = answer.json as ApiTypes["ClaimDetail"];
    return answer.status === 200;
  });
  assert.equal(shown?.events, [
    { about: "claim", type: "Warning", reason: "of-claim", message: "words", at: "2026-01-01T00:00:00Z", count: 2 },
  ]);
  assert.match(shown?.waitsFor ?? "", "no operator has reported");
});

test.run();
