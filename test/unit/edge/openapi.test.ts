import { gunzipSync } from "node:zlib";
// @runtimes bun node deno

import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ClaimStatus } from "../../../crds/claim.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { claimName } from "../../../crds/names.ts";
import type { Trigger } from "../../../crds/trigger.ts";
import type { Deliverer, Delivery } from "../../../edge/api/deliveries.ts";
import type { OpenApiDocument } from "../../../edge/api/openapi/document.ts";
import type { OpenApiSchema } from "../../../edge/api/openapi/request-schemas.ts";
import { rawTar } from "../archive/raw-tar.ts";
import { checkpoint } from "../snapshots/checkpoint-contract.ts";
import { call } from "../snapshots/store-contract.ts";
import { serveStore } from "../snapshots/store-server.ts";
import { usageLines } from "../usage/usage-lines.ts";
import { answerProblems } from "./answer-problems.ts";
import { answerCheckpoint } from "./claim-calls.ts";
import { fakeKubectl } from "./fake-kubectl.ts";
import { insideExec } from "./inside/inside-exec.ts";
import { isValid, type Schema } from "./json-schema.ts";
import { DIGEST, snapshotsFolder } from "./snapshots-folder.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("OpenAPI document");
const active: ClaimStatus = {
  phase: "Active",
  instanceId: "inst-a",
  endpoint: { host: "10.0.0.1", port: 8080 },
  source: "pool",
  claimedAt: "2026-01-01T00:00:00Z",
};
const workload = { name: "new", spec: { image: { ref: "a:1" }, network: { ports: [80] } } };
const trigger = {
  name: "t",
  spec: {
    type: "cron",
    workloadRef: "app",
    tenant: { static: "a" },
    config: { schedule: "* * * * *", payload: { x: 1 } },
  },
};

const pool = { name: "p", spec: { workloadRef: "app", size: 1 } };
const context = rawTar([{ name: "Dockerfile" }]).toString("latin1");
const overlay = rawTar([
  { name: "data/", type: "5", mode: 0o755 },
  { name: "data/file", content: Buffer.from("hello") },
]).toString("latin1");
const uploaded = "/api/v1/tenants/uploaded/snapshots/keeps";

const delivery: Delivery = {
  ...{ id: "t-1", at: active.claimedAt ?? "", result: "answered", tenantId: "a", status: 200, ms: 1.5 },
  ...{ source: "pool", instanceId: "inst-a", test: true },
};
/** One that serves the trigger `t`. */
const gateway: Deliverer = {
  isReady: () => true,
  find: (name) => (name === "t" ? ({ metadata: { name }, spec: trigger.spec } as Trigger) : undefined),
  deliveriesOf: () => [delivery, { ...delivery, result: "failed", reason: "the container did not answer" }],
  runnerOf: () => ({
    signal: new AbortController().signal,
    async run(_, { onEnded }) {
      onEnded?.(delivery);
      return { kind: "answered", reply: { status: 200, contentType: "text/plain", body: new Uint8Array(), text: "" } };
    },
  }),
};

/**
 * A good request and a bad one for each route, in an order in which each finds what it needs. `$version` is the last one
 * that was answered, and `$pid` and `$keyId` too.
 */
const requests: [route: string, path: string, body?: unknown][] = [
  ["GET /api/v1/health", "/api/v1/health"],
  ["GET /api/v1/stats", "/api/v1/stats"],
  ["POST /api/v1/tenants/{id}/claim", "/api/v1/tenants/a/claim", { workload: "app" }],
  ["POST /api/v1/tenants/{id}/claim", "/api/v1/tenants/a/claim", {}],
  ["POST /api/v1/tenants/{id}/claim", "/api/v1/tenants/b/claim", { workload: "none" }],
  ["GET /api/v1/tenants/{id}", "/api/v1/tenants/a"],
  ["GET /api/v1/tenants/{id}", "/api/v1/tenants/-a"],
  ["GET /api/v1/tenants/{id}/limits", "/api/v1/tenants/a/limits"],
  ["GET /api/v1/tenants", "/api/v1/tenants"],
  ["GET /api/v1/tenant-summaries", "/api/v1/tenant-summaries?prefix=a"],
  ["GET /api/v1/tenant-summaries", "/api/v1/tenant-summaries?tenants=-"],
  ["GET /api/v1/instances", "/api/v1/instances"],
  ["GET /api/v1/instances/{id}", "/api/v1/instances/inst-a"],
  ["GET /api/v1/instances/{id}", "/api/v1/instances/none"],
  ["GET /api/v1/instances/{id}/logs", "/api/v1/instances/inst-a/logs"],
  ["GET /api/v1/instances/{id}/logs", "/api/v1/instances/inst-a/logs?tail=x"],
  ["POST /api/v1/instances/{id}/exec", "/api/v1/instances/inst-a/exec", { command: ["echo", "a"] }],
  ["POST /api/v1/instances/{id}/exec", "/api/v1/instances/inst-a/exec", { command: [] }],
  ["POST /api/v1/instances/{id}/processes", "/api/v1/instances/inst-a/processes", { command: ["/bin/echo", "a"] }],
  [
    "POST /api/v1/instances/{id}/processes",
    "/api/v1/instances/inst-a/processes",
    { command: ["/bin/sleep", "60"], background: true },
  ],
  ["POST /api/v1/instances/{id}/processes", "/api/v1/instances/inst-a/processes", { command: ["/none"] }],
  ["POST /api/v1/instances/{id}/processes", "/api/v1/instances/inst-warm/processes", { command: ["/bin/echo", "a"] }],
  ["GET /api/v1/instances/{id}/processes", "/api/v1/instances/inst-a/processes"],
  ["GET /api/v1/instances/{id}/processes/{pid}", "/api/v1/instances/inst-a/processes/$pid"],
  ["GET /api/v1/instances/{id}/processes/{pid}", "/api/v1/instances/inst-a/processes/4000000"],
  ["GET /api/v1/instances/{id}/processes/{pid}/attach", "/api/v1/instances/inst-a/processes/$pid/attach"],
  ["GET /api/v1/instances/{id}/terminal", "/api/v1/instances/inst-a/terminal"],
  ["GET /api/v1/instances/{id}/processes/{pid}", "/api/v1/instances/inst-a/processes/x"],
  [
    "POST /api/v1/instances/{id}/processes/{pid}/signal",
    "/api/v1/instances/inst-a/processes/$pid/signal",
    { signal: "KILL" },
  ],
  ["GET /api/v1/instances/{id}/processes/{pid}", "/api/v1/instances/inst-a/processes/$pid?follow=true"],
  ["PUT /api/v1/instances/{id}/files/{path}", "/api/v1/instances/inst-a/files/$folder/a?mode=0600", "content"],
  ["PUT /api/v1/instances/{id}/files/{path}", "/api/v1/instances/inst-a/files/$folder", "content"],
  ["GET /api/v1/instances/{id}/files/{path}", "/api/v1/instances/inst-a/files/$folder/a"],
  ["GET /api/v1/instances/{id}/files/{path}", "/api/v1/instances/inst-a/files/$folder/none"],
  ["GET /api/v1/instances/{id}/files/{path}", "/api/v1/instances/inst-a/files/$folder?archive=tar.gz"],
  ["PUT /api/v1/instances/{id}/files/{path}", "/api/v1/instances/inst-a/files/$folder/of?unpack=true", overlay],
  ["PUT /api/v1/instances/{id}/files/{path}", "/api/v1/instances/inst-a/files/$folder/of?unpack=true", "no archive"],
  ["GET /api/v1/instances/{id}/files", "/api/v1/instances/inst-a/files?folder=$folder&depth=2"],
  ["GET /api/v1/instances/{id}/files", "/api/v1/instances/inst-a/files?folder=$folder/a&depth=0"],
  ["GET /api/v1/instances/{id}/files", "/api/v1/instances/inst-a/files?depth=x"],
  ["GET /api/v1/instances/{id}/files", "/api/v1/instances/inst-a/files?folder=$folder/none&watch=true"],
  ["POST /api/v1/instances/{id}/files/{path}", "/api/v1/instances/inst-a/files/$folder/a?move=$folder/b"],
  ["POST /api/v1/instances/{id}/files/{path}", "/api/v1/instances/inst-a/files/$folder/a"],
  ["DELETE /api/v1/instances/{id}/files/{path}", "/api/v1/instances/inst-a/files/$folder/b"],
  ["POST /api/v1/instances/{id}/activity", "/api/v1/instances/inst-a/activity"],
  ["POST /api/v1/instances/{id}/activity", "/api/v1/instances/inst-warm/activity"],
  ["POST /api/v1/instances/{id}/destroy", "/api/v1/instances/inst-warm/destroy?tenant=a"],
  ["POST /api/v1/instances/{id}/destroy", "/api/v1/instances/inst-warm/destroy?tenant="],
  ["POST /api/v1/instances/{id}/destroy", "/api/v1/instances/none/destroy"],
  ["POST /api/v1/workloads", "/api/v1/workloads", workload],
  ["POST /api/v1/workloads", "/api/v1/workloads", workload],
  ["GET /api/v1/workloads", "/api/v1/workloads"],
  ["GET /api/v1/workloads/{name}", "/api/v1/workloads/new"],
  ["PUT /api/v1/workloads/{name}", "/api/v1/workloads/new", { spec: workload.spec }],
  ["GET /api/v1/workloads/{name}/snapshots", "/api/v1/workloads/new/snapshots"],
  ["DELETE /api/v1/workloads/{name}", "/api/v1/workloads/new"],
  ["PUT /api/v1/workloads/{name}/context", "/api/v1/workloads/built/context", context],
  ["PUT /api/v1/workloads/{name}/context", "/api/v1/workloads/built/context", "no archive"],
  ["PUT /api/v1/workloads/{name}/context", "/api/v1/workloads/app/context", context],
  ["POST /api/v1/workloads/{name}/build", "/api/v1/workloads/built/build"],
  ["POST /api/v1/workloads/{name}/build", "/api/v1/workloads/none/build"],
  ["GET /api/v1/workloads/{name}/build", "/api/v1/workloads/built/build"],
  ["GET /api/v1/workloads/{name}/build", "/api/v1/workloads/app/build"],
  ["GET /api/v1/workloads/{name}/build/logs", "/api/v1/workloads/built/build/logs"],
  ["GET /api/v1/workloads/{name}/build/logs", "/api/v1/workloads/built/build/logs?tail=x"],
  ["GET /api/v1/snapshots", "/api/v1/snapshots"],
  ["GET /api/v1/tenants/{id}/snapshots/{workload}/versions", "/api/v1/tenants/a/snapshots/new/versions"],
  ["GET /api/v1/tenants/{id}/snapshots/{workload}/versions", "/api/v1/tenants/nobody/snapshots/new/versions"],
  ["GET /api/v1/tenants/{id}/snapshots/{workload}/archive", "/api/v1/tenants/a/snapshots/new/archive"],
  ["GET /api/v1/tenants/{id}/snapshots/{workload}/archive", "/api/v1/tenants/nobody/snapshots/new/archive"],
  ["PUT /api/v1/tenants/{id}/snapshots/{workload}/archive", "/api/v1/tenants/a/snapshots/new/archive?uid=x"],
  ["PUT /api/v1/tenants/{id}/snapshots/{workload}/archive", `${uploaded}/archive`, overlay],
  ["GET /api/v1/tenants/{id}/snapshots/{workload}/files", `${uploaded}/files`],
  ["GET /api/v1/tenants/{id}/snapshots/{workload}/files", "/api/v1/tenants/a/snapshots/new/files"],
  ["GET /api/v1/tenants/{id}/snapshots/{workload}/files/{path}", `${uploaded}/files/data/file`],
  ["GET /api/v1/tenants/{id}/snapshots/{workload}/files/{path}", `${uploaded}/files/data/none`],
  ["GET /api/v1/tenants/{id}/snapshots/{workload}/diff", `${uploaded}/diff?from=$version`],
  ["GET /api/v1/tenants/{id}/snapshots/{workload}/diff", `${uploaded}/diff?from=x`],
  [
    "POST /api/v1/tenants/{id}/snapshots/{workload}/rollback",
    "/api/v1/tenants/a/snapshots/new/rollback",
    { version: DIGEST },
  ],
  ["POST /api/v1/tenants/{id}/snapshots/{workload}/rollback", "/api/v1/tenants/a/snapshots/new/rollback", {}],
  [
    "POST /api/v1/tenants/{id}/snapshots/{workload}/copy",
    "/api/v1/tenants/a/snapshots/new/copy",
    { tenantId: "copied", workload: "app" },
  ],
  ["POST /api/v1/tenants/{id}/snapshots/{workload}/copy", "/api/v1/tenants/a/snapshots/new/copy", {}],
  ["POST /api/v1/tenants/{id}/checkpoint", "/api/v1/tenants/saves/checkpoint", { workload: "app", name: "v1" }],
  ["POST /api/v1/tenants/{id}/checkpoint", "/api/v1/tenants/a/checkpoint", { workload: "app", name: "" }],
  ["DELETE /api/v1/tenants/{id}/snapshots/{workload}/names/{name}", "/api/v1/tenants/saves/snapshots/app/names/v1"],
  ["DELETE /api/v1/tenants/{id}/snapshots/{workload}/names/{name}", "/api/v1/tenants/saves/snapshots/app/names/v1"],
  ["DELETE /api/v1/tenants/{id}/snapshots/{workload}", "/api/v1/tenants/a/snapshots/app"],
  ["DELETE /api/v1/tenants/{id}/snapshots/{workload}", "/api/v1/tenants/a/snapshots/App"],
  ["POST /api/v1/pools", "/api/v1/pools", pool],
  ["POST /api/v1/pools", "/api/v1/pools", { name: "p" }],
  ["GET /api/v1/pools", "/api/v1/pools"],
  ["GET /api/v1/pools/{name}", "/api/v1/pools/p"],
  ["PUT /api/v1/pools/{name}", "/api/v1/pools/p", { spec: pool.spec }],
  ["GET /api/v1/pools/{name}/history", "/api/v1/pools/p/history"],
  ["GET /api/v1/pools/{name}/history", "/api/v1/pools/none/history"],
  ["DELETE /api/v1/pools/{name}", "/api/v1/pools/p"],
  ["DELETE /api/v1/pools/{name}", "/api/v1/pools/p"],
  ["POST /api/v1/triggers", "/api/v1/triggers", trigger],
  ["POST /api/v1/triggers", "/api/v1/triggers", { name: "t" }],
  ["GET /api/v1/triggers", "/api/v1/triggers"],
  ["GET /api/v1/triggers/{id}", "/api/v1/triggers/t"],
  ["PUT /api/v1/triggers/{id}", "/api/v1/triggers/t", { spec: trigger.spec }],
  ["GET /api/v1/triggers/{id}/deliveries", "/api/v1/triggers/t/deliveries"],
  ["GET /api/v1/triggers/{id}/deliveries", "/api/v1/triggers/none/deliveries"],
  ["POST /api/v1/triggers/{id}/test", "/api/v1/triggers/t/test", { data: {} }],
  ["POST /api/v1/triggers/{id}/test", "/api/v1/triggers/t/test", { text: 1 }],
  ["DELETE /api/v1/triggers/{id}", "/api/v1/triggers/t"],
  ["DELETE /api/v1/triggers/{id}", "/api/v1/triggers/t"],
  ["GET /api/v1/debug/resources", "/api/v1/debug/resources"],
  ["GET /ws", "/ws"],
  ["GET /api/v1/history/claims", "/api/v1/history/claims"],
  ["GET /api/v1/history/claims", "/api/v1/history/claims?of=a"],
  ["GET /api/v1/usage", "/api/v1/usage?from=2026-11-01&to=2026-12-01"],
  ["GET /api/v1/usage", "/api/v1/usage?from=2026-11-01&to=2026-12-01&by=day&tenant=a"],
  ["GET /api/v1/usage", "/api/v1/usage?from=2026-11-01&to=2027-12-01"],
  ["GET /api/v1/session", "/api/v1/session"],
  ["POST /api/v1/session", "/api/v1/session", { key: "secret-key" }],
  ["POST /api/v1/session", "/api/v1/session", {}],
  ["DELETE /api/v1/session", "/api/v1/session"],
  ["POST /api/v1/keys", "/api/v1/keys", { name: "a key", role: "tenant", tenants: ["alice", "team-*"] }],
  ["POST /api/v1/keys", "/api/v1/keys", { name: "a key", role: "tenant" }],
  ["GET /api/v1/keys", "/api/v1/keys"],
  ["GET /api/v1/keys/{id}", "/api/v1/keys/$keyId"],
  ["GET /api/v1/keys/{id}", "/api/v1/keys/0000000000000000"],
  ["DELETE /api/v1/keys/{id}", "/api/v1/keys/$keyId"],
  ["DELETE /api/v1/keys/{id}", "/api/v1/keys/$keyId"],
  ["GET /api/v1/audit", "/api/v1/audit?limit=1&act=change"],
  ["GET /api/v1/audit", "/api/v1/audit?since=now"],
  ["GET /api/v1/openapi.json", "/api/v1/openapi.json"],
  ["GET /docs", "/docs"],
  ["GET /api/v1/claims", "/api/v1/claims?limit=1"],
  ["GET /api/v1/claims", "/api/v1/claims?limit=x"],
  ["GET /api/v1/tenants/{id}/claims/{workload}", "/api/v1/tenants/a/claims/app"],
  ["GET /api/v1/tenants/{id}/claims/{workload}", "/api/v1/tenants/b/claims/app"],
  ["GET /api/v1/instances/{id}", "/api/v1/instances/inst-a?detail=true"],
  ["POST /api/v1/tenants/{id}/links", "/api/v1/tenants/a/links", { workload: "linked", expiresInSeconds: 60 }],
  ["POST /api/v1/tenants/{id}/links", "/api/v1/tenants/a/links", { workload: "app", expiresInSeconds: 60 }],
  ["POST /api/v1/tenants/{id}/extend", "/api/v1/tenants/expires/extend", { workload: "app", seconds: 60 }],
  ["POST /api/v1/tenants/{id}/extend", "/api/v1/tenants/a/extend", { workload: "app", seconds: 60 }],
  ["POST /api/v1/tenants/{id}/discard", "/api/v1/tenants/failed/discard", { workload: "app" }],
  ["POST /api/v1/tenants/{id}/discard", "/api/v1/tenants/a/discard", { workload: "app" }],
  ["POST /api/v1/tenants/{id}/release", "/api/v1/tenants/a/release", { workload: "app" }],
  ["POST /api/v1/tenants/{id}/release", "/api/v1/tenants/b/release", { workload: "app" }],
];
const isInside = ([route]: (typeof requests)[number]) => /\{id\}\/(processes|files|terminal)/.test(route);
const afterInside = requests.findLastIndex(isInside) + 1;
/** The same for who knows the tenant and not the pod. */
const byTenant = requests
  .filter(isInside)
  .map(([route, path, body]): (typeof requests)[number] => [
    route.replace("/instances/{id}", "/tenants/{id}/instances/{workload}"),
    path
      .replace("/instances/inst-a", "/tenants/a/instances/app")
      .replace("/instances/inst-warm", "/tenants/a/instances/x"),
    body,
  ]);

async function documentOf(edge: TestEdge): Promise<OpenApiDocument> {
  return (await edge.call("GET /api/v1/openapi.json")).json as OpenApiDocument;
}

test("every documented route is called, and every answer is as documented", async () => {
  const volume = snapshotsFolder();
  const kubectl = fakeKubectl();
  const links = {
    ...{ maxSeconds: 60, address: () => "http://app--a.localhost/", problem: () => undefined },
    create: () => "http://app--a.localhost/?tenancy-token=x",
  };
  const served = await serveStore(volume.path);
  const edge = testEdge({
    kubectl: kubectl.command,
    store: served.store,
    ...{ contexts: served.contexts, usage: served.usage },
    exec: await insideExec(),
    clock: systemClock,
    hasKeys: true,
    gateway,
    links,
  });
  // There are sessions only where a key is asked for.
  const locked = testEdge({ apiKey: "secret-key" });
  const { cluster } = edge;
  cluster.addWorkload("app");
  cluster.addWorkload("keeps", { filesystem: { overlayDirs: ["/data"] } });
  cluster.addWorkload("linked", { network: { expose: "link" } });
  cluster.addWorkload("built", { image: { dockerfile: "Dockerfile" } });
  cluster.addBuild("build-built", { workload: "built" });
  cluster.addSnapshots();
  cluster.addClaim({ tenantId: "failed", workloadRef: "app", status: { phase: "ReleaseFailed" }, deleting: true });
  const spec = { expiresAt: "2026-01-01T00:00:00Z" };
  cluster.addClaim({ tenantId: "expires", workloadRef: "app", status: active, spec });
  for (const workload of ["app", "new"]) volume.save("a", workload);
  const { metadata } = cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active });
  const saves = { tenantId: "saves", workloadRef: "app" };
  cluster.addClaim({ ...saves, status: active });
  const { metadata: saved } = await checkpoint(served.store, "content", { session: "a", to: saves });
  await served.store.setName(saves, { sha256: saved.sha256, name: "v1" }, call);
  const [lines] = usageLines([{ tenantId: "a", from: "2026-11-29T10:00:00Z", seconds: 60 }]);
  await served.usage.append({ hour: "2026-11-29T10", name: "a-1", lines: lines ?? "" }, call);
  const answering = answerCheckpoint(edge, claimName(saves), { sha256: saved.sha256 });
  cluster.addPod("inst-a", "Running", {
    labels: { [label.tenant]: "a", [label.workload]: "app" },
    annotations: {
      [annotation.claimUid]: metadata.uid ?? "",
      [annotation.claim]: metadata.name,
      [annotation.claimedAt]: "2026-01-01T00:00:00Z",
    },
    podIP: "10.0.0.1",
  });
  cluster.addPod("inst-warm", "Pending", { labels: { [label.pool]: "p" } });
  const document = await documentOf(edge);
  const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const successful = new Set<string>();
  let version = "";
  let pid = 0;
  let keyId = "";
  const folder = mkdtempSync(join(tmpdir(), "tenancy-inside-"));
  for (const [route, path, body] of requests.toSpliced(afterInside, 0, ...byTenant)) {
    const server = route.endsWith("/session") ? locked : edge;
    const target = path
      .replace("$version", version)
      .replace("$pid", String(pid))
      .replace("$keyId", keyId)
      .replaceAll("$folder", folder.slice(1));
    const answer = await server.call(`${route.split(" ")[0]} ${target}`, { body });
    const { status, headers, text, json } = answer;
    version = (json as { version?: string } | undefined)?.version ?? version;
    pid = (json as { pid?: number } | undefined)?.pid ?? pid;
    if (route === "POST /api/v1/keys" && status === 201) keyId = (json as { id: string }).id;
    assert.equal(answerProblems(document, { route, status, contentType: headers.get("content-type"), text }), []);
    const [method = "", pattern = ""] = route.split(" ");
    const told = document.paths[pattern]?.[method.toLowerCase()]?.responses[status]?.headers ?? {};
    for (const [name, { required }] of Object.entries(told))
      assert.ok(headers.has(name) || !required, `${route} has ${name}`);
    // A WebSocket is no plain request; other tests open it.
    if (status < 400 || status === 426) successful.add(route);
  }
  assert.equal([...successful].sort(), documented.sort());
  await answering;
  kubectl.remove();
  await edge.channels.close();
  rmSync(folder, { recursive: true });
  await served.close();
  volume.remove();
});

test("an answer that strays from the document is found", async () => {
  const document = await documentOf(testEdge());
  const route = "GET /api/v1/tenants/{id}";
  const problems = (status: number, body: unknown, contentType = "application/json") =>
    answerProblems(document, { route, status, contentType, text: JSON.stringify(body) }).length;
  assert.is(problems(200, { tenantId: "a", claims: [] }), 0);
  assert.ok(problems(200, { tenantId: "a" }) > 0);
  assert.ok(problems(200, { tenantId: "a", claims: [{}] }) > 0);
  assert.ok(problems(200, { tenantId: "a", claims: [], more: 1 }) > 0);
  assert.ok(problems(201, { tenantId: "a", claims: [] }) > 0);
  assert.ok(problems(404, { error: "no" }) > 0);
  assert.ok(problems(200, { tenantId: "a", claims: [] }, "text/plain") > 0);
});

test("the document stands alone: every reference resolves, ids differ, nothing of the API server's own words is left", async () => {
  const document = await documentOf(testEdge());
  const text = JSON.stringify(document);
  for (const [, name = ""] of text.matchAll(/"#\/components\/schemas\/(\w+)"/g))
    assert.ok(document.components.schemas[name]);
  assert.not.match(text, "x-kubernetes");
  const ids = [...text.matchAll(/"operationId":"(\w+)"/g)].map(([, id]) => id);
  assert.is(new Set(ids).size, ids.length);
});

test("every operation has a group, every body and every answer an example that fits its schema", async () => {
  const document = await documentOf(testEdge());
  const { components, paths, tags } = document;
  const known = new Set(tags.map(({ name }) => name));
  const used = new Set<string>();
  let found = 0;
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, { tags: own, requestBody, responses }] of Object.entries(methods)) {
      assert.is(own.length, 1);
      assert.ok(known.has(own[0]), own[0]);
      used.add(own[0]);
      const bodies = [requestBody?.content, ...Object.values(responses).map(({ content }) => content)];
      for (const [type, { schema, example }] of bodies.flatMap((content) => Object.entries(content ?? {}))) {
        // Bytes are no JSON.
        if (
          [
            "application/gzip",
            "application/x-tar",
            "application/octet-stream",
            "application/x-ndjson",
            "text/event-stream",
          ].includes(type)
        )
          continue;
        const what = `${method} ${path}: ${JSON.stringify(example)}`;
        assert.ok(example !== undefined, what);
        assert.ok(isValid(example, schema as Schema, components.schemas as Readonly<Record<string, Schema>>), what);
        found += 1;
      }
    }
  }
  assert.equal([...used].sort(), [...known].sort());
  assert.ok(found > 100, `only ${found} examples`);
});

test("every operation, parameter, header, answer and field has a description", async () => {
  const document = await documentOf(testEdge());
  const missing: string[] = [];
  const look = (what: string, words: string | undefined) => {
    if (words === undefined || words.trim() === "") missing.push(what);
  };
  (function visit(value: unknown, path: string): void {
    if (typeof value !== "object" || value === null) return;
    for (const [name, held] of Object.entries(value)) {
      const at = `${path}.${name}`;
      if (name === "example" || name === "default") continue;
      // Rules of a schema name fields that it describes elsewhere.
      if (["anyOf", "allOf", "oneOf", "not"].includes(name)) continue;
      if (name === "properties" && path.includes("chema")) {
        for (const [field, schema] of Object.entries(held as Record<string, OpenApiSchema>)) {
          if (!("$ref" in schema)) look(`${at}.${field}`, schema.description);
        }
      }
      visit(held, at);
    }
  })(document, "document");
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, { summary, parameters, responses }] of Object.entries(methods)) {
      look(`${method} ${path}`, summary);
      for (const one of parameters) look(`${method} ${path} ${one.name}`, one.description ?? one.schema.description);
      for (const [status, { description, headers = {} }] of Object.entries(responses)) {
        look(`${method} ${path} ${status}`, description);
        for (const [name, one] of Object.entries(headers)) look(`${method} ${path} ${status} ${name}`, one.description);
      }
    }
  }
  for (const [name, schema] of Object.entries(document.components.schemas)) look(name, schema.description);
  assert.equal(missing, []);
});

test("what a route reads of its request is documented with the server's own bounds", async () => {
  const links = { maxSeconds: 600, address: () => "", create: () => "", problem: () => undefined };
  const edge = testEdge({ links });
  const { paths } = await documentOf(edge);
  const { content } = paths["/api/v1/tenants/{id}/links"]?.post?.requestBody ?? {};
  const schema = content?.["application/json"]?.schema as OpenApiSchema | undefined;
  assert.is(schema?.properties?.expiresInSeconds?.maximum, 600);
  edge.cluster.addWorkload("app", { network: { expose: "link" } });
  const ask = async (body: object) => (await edge.call("POST /api/v1/tenants/a/links", { body })).status;
  assert.is(await ask({ workload: "app" }), 201);
  assert.is(await ask({ workload: "app", expiresInSeconds: 600 }), 201);
  assert.is(await ask({ workload: "app", expiresInSeconds: 601 }), 400);
  const inHeader = paths["/ws"]?.get?.parameters.filter((one) => one.in === "header");
  assert.equal(
    inHeader?.map(({ name, required }) => `${name} ${required}`),
    ["upgrade true", "sec-websocket-version true", "sec-websocket-key true"],
  );
});

test("the document comes gzipped to a client that takes it so, and is the same", async () => {
  const { handler } = testEdge();
  const ask = (headers: Record<string, string>) =>
    handler(new Request("http://localhost/api/v1/openapi.json", { headers }), { peerOf: () => "192.0.2.7" });
  const [plain, zipped] = [await ask({}), await ask({ "accept-encoding": "gzip" })];
  assert.equal(
    [plain, zipped].map(({ headers }) => headers.get("content-encoding")),
    [null, "gzip"],
  );
  assert.match(zipped.headers.get("vary") ?? "", /accept-encoding/);
  const small = Buffer.from(await zipped.arrayBuffer());
  const whole = await plain.text();
  assert.is(String(gunzipSync(small)), whole);
  assert.ok(small.byteLength < whole.length / 8, `${small.byteLength} of ${whole.length}`);
});

test("the key's scheme is in every document; 401 is in that of a server that has a key, and only there", async () => {
  const without = await documentOf(testEdge());
  assert.not.match(JSON.stringify(without), /"401"/);
  assert.equal(without.security, [{}, { apiKey: [] }, { session: [] }]);
  assert.equal(Object.keys(without.components.securitySchemes), ["apiKey", "session"]);
  assert.ok(without.paths["/api/v1/tenants"]?.get?.responses["403"]);
  const edge = testEdge({ apiKey: "secret-key" });
  const headers = { authorization: "Bearer secret-key" };
  const document = (await edge.call("GET /api/v1/openapi.json", { headers })).json as OpenApiDocument;
  assert.equal(document.security, [{ apiKey: [] }, { session: [] }]);
  for (const status of ["401", "403"]) assert.ok(document.paths["/api/v1/tenants"]?.get?.responses[status]);
  const isPublic = (path: string) => document.paths[path]?.get?.security !== undefined;
  assert.equal(["/api/v1/health", "/api/v1/stats", "/ws", "/docs", "/api/v1/tenants"].map(isPublic), [
    true,
    true,
    true,
    false,
    false,
  ]);
});

test("the page names every route, and loads nothing from elsewhere", async () => {
  const edge = testEdge();
  const { text, headers } = await edge.call("GET /docs");
  const policy = headers.get("content-security-policy") ?? "";
  const style = /<style>([^<]*)<\/style>/.exec(text)?.[1] ?? "";
  assert.match(policy, `style-src 'sha256-${createHash("sha256").update(style).digest("base64")}'`);
  assert.not.match(policy, "unsafe");
  for (const path of Object.keys((await documentOf(edge)).paths)) assert.ok(text.includes(path), path);
  assert.not.match(text, /https?:\/\//);
  assert.not.match(text, "<script");
  assert.match(headers.get("content-security-policy") ?? "", "default-src 'none'");
});

test.run();
