// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pools, triggers, workloads } from "../../../crds/kinds.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import type { Resource } from "../../../crds/resource.ts";
import { testEdge } from "./test-edge.ts";

const test = suite("pool routes, and what the routes of all specs do");
const spec = { workloadRef: "app", size: 3 };
const status = { phase: "Filling", ready: 0, warming: 0 };
const shown = { name: "p", spec, status, createdAt: "2026-01-01T00:00:00Z" };
const hook = { type: "webhook", workloadRef: "app", tenant: { static: "a" }, config: { path: "/hooks/a" } };
/** An object of each kind, and a change of its spec. */
const kinds: {
  path: string;
  noun: string;
  resource: Resource<KubernetesObject & { spec: object }>;
  spec: object;
  next: object;
}[] = [
  { path: "/api/v1/pools", noun: "pool", resource: pools, spec, next: { ...spec, size: 4 } },
  {
    path: "/api/v1/workloads",
    noun: "workload",
    resource: workloads,
    spec: { image: { ref: "a:1" } },
    next: { image: { ref: "a:2" } },
  },
  {
    path: "/api/v1/triggers",
    noun: "trigger",
    resource: triggers,
    spec: hook,
    next: { ...hook, config: { path: "/hooks/b" } },
  },
];

test("a pool is made, listed, read, resized and deleted", async () => {
  const edge = testEdge();
  const created = await edge.call("POST /api/v1/pools", { body: { name: "p", spec } });
  assert.is(created.status, 201, created.text);
  assert.equal(created.json, shown);
  await edge.call("POST /api/v1/pools", { body: { name: "a", spec } });
  const list = await edge.call("GET /api/v1/pools");
  assert.equal(list.json, [{ ...shown, name: "a" }, shown]);
  assert.is(list.headers.get("x-tenancy-version"), "102");
  const resized = await edge.call("PUT /api/v1/pools/p", { body: { spec: { ...spec, size: 5 } } });
  assert.equal(resized.json, { ...shown, spec: { ...spec, size: 5 } });
  assert.equal((await edge.call("GET /api/v1/pools/p")).json, resized.json);
  assert.equal((await edge.call("DELETE /api/v1/pools/p")).json, { status: "deleted" });
  for (const method of ["GET", "PUT", "DELETE"]) {
    const gone = await edge.call(`${method} /api/v1/pools/p`, method === "PUT" ? { body: { spec } } : {});
    assert.is(gone.status, 404);
    assert.match(gone.error ?? "", /^pool "p" does not exist; create it with POST \/api\/v1\/pools, or apply/);
  }
});

test("a pool shows what the operator found, without what only the operator reads", async () => {
  const edge = testEdge();
  await edge.call("POST /api/v1/pools", { body: { name: "p", spec } });
  const found = { phase: "Degraded", ready: 1, warming: 1, desired: 3, reason: "ImagePullFailed", message: "no image" };
  const pool = edge.cluster.read(pools, "p");
  Object.assign(pool, { status: { ...found, selector: "tenancy.dev/pool=p", observedGeneration: 1, conditions: [] } });
  assert.equal((await edge.call("GET /api/v1/pools/p")).json, { ...shown, status: found });
});

for (const { path, noun, resource, spec: first, next } of kinds) {
  test(`a ${noun} is replaced where its spec is still what was read`, async () => {
    const edge = testEdge();
    const created = await edge.call(`POST ${path}`, { body: { name: "x", spec: first } });
    const etag = created.headers.get("etag") ?? "";
    assert.is((await edge.call(`GET ${path}/x`)).headers.get("etag"), etag);
    // Its status has a life of its own.
    const object = { ...edge.cluster.read(resource, "x"), status: { phase: "Ready" } };
    await edge.cluster.client.replace(resource, object);
    const put = (tag: string) => edge.call(`PUT ${path}/x`, { body: { spec: next }, headers: { "if-match": tag } });
    const replaced = await put(`"other", W/${etag}`);
    assert.is(replaced.status, 200, replaced.text);
    assert.not.equal(replaced.headers.get("etag"), etag);
    const late = await put(etag);
    assert.is(late.status, 409);
    assert.match(late.error ?? "", `${noun} "x" has changed since it was read (generation 2 now): read it again`);
    for (const any of ["*", replaced.headers.get("etag") ?? ""]) assert.is((await put(any)).status, 200);
  });

  test(`a write of a ${noun} that somebody else overtakes is not made over theirs`, async () => {
    const edge = testEdge();
    const created = await edge.call(`POST ${path}`, { body: { name: "x", spec: first } });
    const overtake = (object: object) => () =>
      void edge.cluster.client.replace(resource, { ...edge.cluster.read(resource, "x"), ...object });
    const put = () =>
      edge.call(`PUT ${path}/x`, {
        body: { spec: next },
        headers: { "if-match": created.headers.get("etag") ?? "" },
      });
    edge.cluster.onNext("replace", overtake({ spec: { ...next, other: true } }));
    assert.is((await put()).status, 409);
    assert.equal(edge.cluster.read(resource, "x").spec, { ...next, other: true });
  });

  test(`a ${noun} is deleted where its spec is still what was read`, async () => {
    const edge = testEdge();
    const created = await edge.call(`POST ${path}`, { body: { name: "x", spec: first } });
    const etag = created.headers.get("etag") ?? "";
    const overtake = (object: object) =>
      edge.cluster.client.replace(resource, { ...edge.cluster.read(resource, "x"), ...object });
    const erase = (tag: string) => edge.call(`DELETE ${path}/x`, { headers: { "if-match": tag } });
    await overtake({ spec: next });
    const late = await erase(etag);
    assert.is(late.status, 409);
    assert.match(late.error ?? "", `${noun} "x" has changed since it was read`);
    const present = (await edge.call(`GET ${path}/x`)).headers.get("etag") ?? "";
    // A status that changes in between is no change of the spec; a proxy that compresses makes the tag a weak one.
    edge.cluster.onNext("delete", () => void overtake({ status: { phase: "Ready" } }));
    const deleted = await erase(`W/${present}`);
    assert.is(deleted.status, 200, deleted.text);
    assert.is((await erase("*")).status, noun === "workload" ? 200 : 404);
  });

  test(`a dry run of a ${noun} answers as the write would, and writes nothing`, async () => {
    const edge = testEdge();
    const made = await edge.call(`POST ${path}?dryRun=true`, { body: { name: "x", spec: first } });
    assert.is(made.status, 201, made.text);
    assert.equal((made.json as { spec: object }).spec, first);
    assert.is((await edge.call(`GET ${path}/x`)).status, 404);
    assert.is((await edge.call(`POST ${path}?dryRun=true`, { body: { name: "x", spec: {} } })).status, 400);
    await edge.call(`POST ${path}`, { body: { name: "x", spec: first } });
    assert.is((await edge.call(`POST ${path}?dryRun=true`, { body: { name: "x", spec: first } })).status, 409);
    const changed = await edge.call(`PUT ${path}/x?dryRun=true`, { body: { spec: next } });
    assert.is(changed.status, 200, changed.text);
    assert.equal((changed.json as { spec: object }).spec, next);
    assert.equal(((await edge.call(`GET ${path}/x`)).json as { spec: object }).spec, first);
    assert.equal(
      edge.cluster.calls.filter(({ verb }) => verb === "create" || verb === "replace").map(({ dryRun }) => dryRun),
      [true, undefined, true, true],
    );
  });
}

test("a dry run does not reach what the edge knows", async () => {
  const edge = testEdge();
  await edge.call("POST /api/v1/workloads?dryRun=true", { body: { name: "x", spec: { image: { ref: "a:1" } } } });
  assert.is(edge.cluster.cache.workloads.store.get("tenancy/x"), undefined);
});

test.run();
