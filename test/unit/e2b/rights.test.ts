// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readQuotas } from "../../../crds/quotas/tenant-quotas.ts";
import type { Actor } from "../../../edge/access/actor.ts";
import type { Tokens } from "../../../edge/access/tokens.ts";
import { controlRoutes } from "../../../edge/e2b/control/routes.ts";
import { active } from "../edge/claim-calls.ts";
import { testEdge } from "../edge/test-edge.ts";
import { manualClock } from "../manual-clock.ts";
import { activateNext, ask, create, ROOT } from "./sandbox-calls.ts";

const test = suite("what a key may do with sandboxes");

const actor = (more: Partial<Actor>): Actor => ({
  ...{ kind: "serviceAccount", id: "caller", ref: "caller", role: "reader", tenants: [] },
  ended: new AbortController().signal,
  ...more,
});

function edgeFor(caller: Actor, limits = {}) {
  const tokens: Tokens = { actorOf: () => caller, holds: () => true, login: undefined, close: () => undefined };
  const quotas = readQuotas({ data: { "quotas.yaml": JSON.stringify({ tenants: { a: limits } }) } });
  if (typeof quotas === "string") throw new Error(quotas);
  const edge = testEdge({ apiKey: ROOT, tokens, quotas: { current: () => quotas, problem: () => undefined } });
  edge.cluster.addWorkload("app", { filesystem: { overlayDirs: ["/data"] } });
  return edge;
}

const key = "a-token";

test("an account that may only claim gets no token, and cannot look into sandboxes, fork or kill them", async () => {
  const edge = edgeFor(actor({ mayClaim: true }));
  const { answer, claim } = await create(edge, { key });
  assert.is("envdAccessToken" in (answer.json as object), false);
  const id = `app--${claim.spec.tenantId}`;
  for (const [target, status] of [
    [`GET /sandboxes/${id}`, 200],
    ["GET /v2/sandboxes?state=running", 200],
    [`POST /sandboxes/${id}/connect`, 200],
    [`POST /sandboxes/${id}/refreshes`, 204],
    [`DELETE /sandboxes/${id}`, 403],
    [`POST /sandboxes/${id}/fork`, 403],
    [`POST /sandboxes/${id}/snapshots`, 403],
    [`GET /sandboxes/${id}/logs`, 403],
    [`GET /sandboxes/${id}/metrics`, 403],
    ["GET /templates", 403],
    [`DELETE /templates/${id}:v1`, 403],
  ] as const) {
    const { status: got, text } = await ask(edge, target, { key });
    assert.is(got, status, `${target}: ${text}`);
    assert.not.match(text, /[tT]oken/);
  }
  assert.equal((await ask(edge, "GET /snapshots", { key })).json, []);
  const { status } = await ask(edge, "POST /v2/sandboxes", { key, body: { templateID: `${id}:v1` } });
  assert.is(status, 404);
});

test("each route says who may call it", () => {
  const { cache, namespace } = edgeFor(actor({})).cluster;
  const routes = controlRoutes({ cache, namespace, clock: manualClock() } as never);
  assert.ok(routes.length > 40);
  for (const { method, path, access } of routes) {
    assert.ok(access, path);
    // Whose a sandbox is, and of which workload, is read from its id.
    if (path.includes(":sandbox")) assert.is(access.whose, "tenant", path);
    if (path.includes(":sandbox") && method !== "GET") assert.not(access.roles.includes("reader"), path);
  }
});

test("a reader lists and gets, without tokens", async () => {
  const edge = edgeFor(actor({ tenants: ["a"] }));
  edge.cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active });
  edge.cluster.addClaim({ tenantId: "b", workloadRef: "app", status: active });
  const listed = (await ask(edge, "GET /v2/sandboxes?state=running", { key })).json as { sandboxID: string }[];
  assert.equal(
    listed.map(({ sandboxID }) => sandboxID),
    ["app--a"],
  );
  const { status, text } = await ask(edge, "GET /sandboxes/app--a", { key });
  assert.is(status, 200);
  assert.not.match(text, /[tT]oken/);
  for (const route of ["connect", "pause", "timeout", "refreshes", "resume", "fork", "snapshots"])
    assert.is((await ask(edge, `POST /sandboxes/app--a/${route}`, { key, body: { timeout: 60 } })).status, 403, route);
  assert.is((await ask(edge, "DELETE /sandboxes/app--a", { key })).status, 403);
});

test("creating, listing and looking count for the tenant's requests of the second", async () => {
  const edge = edgeFor(actor({ role: "tenant", tenants: ["a"] }), { requestsPerSecond: 3 });
  const [created] = await Promise.all([
    ask(edge, "POST /v2/sandboxes", { key, body: { templateID: "app" } }),
    activateNext(edge),
  ]);
  assert.is(created.status, 201, created.text);
  assert.is((await ask(edge, "GET /v2/sandboxes?state=running", { key })).status, 200);
  assert.is((await ask(edge, "GET /sandboxes/app--a", { key })).status, 200);
  for (const target of ["POST /v2/sandboxes", "GET /v2/sandboxes", "GET /sandboxes", "GET /sandboxes/app--a"]) {
    const body = target.startsWith("POST") ? { templateID: "app" } : undefined;
    const { status, headers, text } = await ask(edge, target, { key, body });
    assert.is(status, 429, `${target}: ${text}`);
    assert.ok(headers.get("retry-after"));
  }
});

test("the audit log says whose sandbox was changed or looked into", async () => {
  const edge = edgeFor(actor({ role: "tenant", tenants: ["a*"] }));
  const { claim } = await create(edge, { key });
  const { tenantId } = claim.spec;
  await ask(edge, `POST /sandboxes/app--${tenantId}/timeout`, { key, body: { timeout: 60 } });
  await ask(edge, "GET /v2/sandboxes?state=running", { key });
  await ask(edge, "DELETE /sandboxes/app--b", { key });
  const records = edge.audited.map((line) => JSON.parse(line) as { method: string; object: object; status: number });
  const sandbox = `app--${tenantId}`;
  assert.equal(
    records.map(({ method, object, status }) => [method, object, status]),
    [
      ["POST", { workload: "app", tenant: tenantId, instance: claim.status?.instanceId }, 201],
      ["POST", { sandbox, tenant: tenantId, workload: "app" }, 204],
      ["DELETE", { sandbox: "app--b", tenant: "b", workload: "app" }, 404],
    ],
  );
});

test.run();
