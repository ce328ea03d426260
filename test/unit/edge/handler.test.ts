// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { testEdge } from "./test-edge.ts";

const test = suite("edge handler");

test("health answers without the cluster", async () => {
  const edge = testEdge();
  edge.cluster.isFresh = false;
  const answer = await edge.call("GET /api/v1/health");
  assert.is(answer.status, 200);
  assert.equal(answer.json, { status: "ok" });
  assert.match(answer.headers.get("content-type") ?? "", /^application\/json/);
});

test("an unknown route is a 404 in JSON that names it", async () => {
  const edge = testEdge();
  for (const path of [
    "/",
    "/api",
    "/api/v1",
    "/api/v1/",
    "/api/v1/nothing",
    "/api/v2/health",
    "/api/v1/healthz",
    "/api/v1/health/x",
  ]) {
    const answer = await edge.call(`GET ${path}`);
    assert.is(answer.status, 404, path);
    assert.equal(Object.keys(answer.json as object), ["error"]);
  }
  assert.is((await edge.call("GET /api/v1/nothing?x=1")).error, 'there is no route GET "/api/v1/nothing"');
});

test("a method that a route does not have is a 405 with Allow", async () => {
  const edge = testEdge();
  const cases: [string, string][] = [
    ["POST /api/v1/health", "GET, HEAD"],
    ["PUT /api/v1/workloads", "GET, HEAD, POST"],
    ["PATCH /api/v1/workloads/a", "GET, HEAD, PUT, DELETE"],
    ["GET /api/v1/tenants/a/claim", "POST"],
    ["HEAD /api/v1/tenants/a/claim", "POST"],
    ["DELETE /api/v1/tenants/a", "GET, HEAD"],
    ["OPTIONS /api/v1/tenants", "GET, HEAD"],
    ["POST /api/v1/snapshots", "GET, HEAD"],
  ];
  for (const [target, allow] of cases) {
    const answer = await edge.call(target);
    assert.is(answer.status, 405, target);
    assert.is(answer.headers.get("allow"), allow, target);
  }
  assert.is((await edge.call("POST /api/v1/health")).error, "POST is not supported here; GET, HEAD are");
});

test("a method that no route has is a 405 with those that there are, whatever the path", async () => {
  const edge = testEdge();
  for (const target of ["PATCH /api/v1/nothing", "PROPFIND /"]) {
    const answer = await edge.call(target);
    assert.is(answer.status, 405, target);
    assert.equal(answer.headers.get("allow")?.split(", ").sort(), ["DELETE", "GET", "HEAD", "POST", "PUT"]);
  }
});

test("a query parameter that a route does not know is a 400 that names it and the known ones", async () => {
  const edge = testEdge();
  const cases: [string, string][] = [
    ["GET /api/v1/health?t=1", 'query: unknown parameter "t"; this route has none'],
    ["HEAD /api/v1/tenants?x", ""],
    ["GET /api/v1/tenants?limit=5", 'query: unknown parameter "limit"; this route has none'],
    ["POST /api/v1/tenants/a/claim?wait=true", 'query: unknown parameter "wait"; this route has none'],
    ["POST /api/v1/tenants/a/release?wiat=true", 'query: unknown parameter "wiat"; known are wait'],
    [
      "GET /api/v1/instances/i/logs?lines=5&tail=5",
      'query: unknown parameter "lines"; known are tail, follow, previous',
    ],
    [
      "GET /api/v1/snapshots?version=true",
      'query: unknown parameter "version"; known are versions, limit, after, tenant',
    ],
    ["GET /ws?tenants=a", 'query: unknown parameter "tenants"; known are tenant, workload, type, since'],
    ["GET /api/v1/tenants?__proto__=1", 'query: unknown parameter "__proto__"; this route has none'],
    ["GET /api/v1/tenants?=1", 'query: unknown parameter ""; this route has none'],
  ];
  for (const [target, error] of cases) {
    const answer = await edge.call(target);
    assert.is(answer.status, 400, target);
    assert.is(answer.error ?? "", error, target);
  }
  assert.is((await edge.call("GET /api/v1/tenants?")).status, 200);
  assert.equal(edge.cluster.verbs(), []);
});

test("HEAD answers what GET does, without the body", async () => {
  const edge = testEdge();
  edge.cluster.addWorkload("app");
  const routes = [
    "health",
    "stats",
    "workloads",
    "workloads/app",
    "workloads/none",
    "snapshots",
    "tenants",
    "tenants/a",
    "nothing",
  ];
  for (const route of routes) {
    const get = await edge.call(`GET /api/v1/${route}`, { headers: { "x-request-id": "r" } });
    const head = await edge.call(`HEAD /api/v1/${route}`, { headers: { "x-request-id": "r" } });
    assert.is(head.status, get.status, route);
    assert.is(head.text, "", route);
    assert.is(head.headers.get("content-type"), get.headers.get("content-type"), route);
    if (route !== "nothing")
      assert.is(head.headers.get("content-length"), String(new TextEncoder().encode(get.text).byteLength));
  }
});

test("an address is what new URL reads, also once the same path was found on another host", async () => {
  const { handler } = testEdge();
  const cases: [string, number][] = [
    ["http://edge.test", 200],
    ["http://a b", 400],
    ["http://edge.test?x=", 404],
    ["http://edge.test#", 404],
    ["http://", 404],
    ["http://edge.test\\", 404],
    ["http://[::1]:8080", 200],
  ];
  for (const [origin, status] of cases) {
    const request = { method: "GET", url: `${origin}/api/v1/health`, headers: new Headers() } as Request;
    assert.is((await handler(request)).status, status, origin);
  }
});

test("a request id comes back, and one that is unsafe to log is replaced", async () => {
  const edge = testEdge();
  const idOf = async (headers: Record<string, string>) =>
    (await edge.call("GET /api/v1/health", { headers })).headers.get("x-request-id");
  assert.is(await idOf({ "x-request-id": "abc-1.2:3_4" }), "abc-1.2:3_4");
  assert.is(await idOf({}), "test-1");
  assert.is(await idOf({ "x-request-id": "a b" }), "test-2");
  assert.is(await idOf({ "x-request-id": '{"a":1}' }), "test-3");
  assert.is(await idOf({ "x-request-id": "x".repeat(129) }), "test-4");
});

test("each answer is told once, with its route's pattern and never with the path", async () => {
  const edge = testEdge();
  await edge.call("GET /api/v1/tenants/secret-tenant?token=hunter2");
  await edge.call("GET /hunter2");
  await edge.call("POST /api/v1/tenants/a/claim", { body: {} });
  const seen = edge.answers.map(({ method, route, status, requestId }) => `${method} ${route} ${status} ${requestId}`);
  assert.equal(seen, [
    "GET /api/v1/tenants/:id 400 test-1",
    "GET * 404 test-2",
    "POST /api/v1/tenants/:id/claim 400 test-3",
  ]);
});

test("broken percent-encoding in a path is a 400", async () => {
  const edge = testEdge();
  for (const path of ["/api/v1/tenants/%zz", "/api/v1/tenants/%E0%A4%A", "/api/v1/workloads/%", "/x/%zz"]) {
    const answer = await edge.call(`GET ${path}`);
    assert.is(answer.status, 400, path);
    assert.match(answer.error ?? "", "not valid percent-encoding");
  }
});

test("a path parameter is decoded once", async () => {
  const edge = testEdge();
  assert.equal((await edge.call("GET /api/v1/tenants/%61b")).json, { tenantId: "ab", claims: [] });
  // Twice decoded this would be the legal id "ab".
  assert.is((await edge.call("GET /api/v1/tenants/%2561b")).status, 400);
  assert.is((await edge.call("GET /api/v1/tenants/a%2Fb")).status, 400);
});

test("tenant ids that are no label value are refused on every route", async () => {
  const edge = testEdge();
  const bad = ["-a", "a-", "_a", "a.", "a b", "a/b", "é", "a\u0000b", "🙂", "a".repeat(64), "a\nb", "a:b", "a@b", "%"];
  for (const id of bad) {
    const path = `/api/v1/tenants/${encodeURIComponent(id)}`;
    for (const target of [`GET ${path}`, `POST ${path}/claim`, `POST ${path}/release`]) {
      const answer = await edge.call(target, target.startsWith("POST") ? { body: { workload: "app" } } : {});
      assert.is(answer.status, 400, `${target} ${JSON.stringify(id)}`);
      assert.match(answer.error ?? "", /^path: a tenant id is 1 to 63 letters/);
    }
  }
  assert.equal(edge.cluster.calls, []);
  for (const id of ["a", "A_b.C-9", "0", "a".repeat(63)]) {
    assert.is((await edge.call(`GET /api/v1/tenants/${id}`)).status, 200, id);
  }
});

test("workload names that no object can have are refused before any call", async () => {
  const edge = testEdge();
  for (const name of ["A", "a_b", "-a", "a-", "a..b", "é", "a".repeat(64), "a b"]) {
    const path = `/api/v1/workloads/${encodeURIComponent(name)}`;
    for (const method of ["GET", "PUT", "DELETE"]) {
      const body = method === "PUT" ? { body: { spec: { image: { ref: "a:1" } } } } : {};
      assert.is((await edge.call(`${method} ${path}`, body)).status, 400, `${method} ${name}`);
    }
    assert.is((await edge.call(`GET ${path}/snapshots`)).status, 400);
  }
  assert.equal(edge.cluster.calls, []);
});

test("snapshots are an empty list where nothing was saved, of a workload that exists", async () => {
  const edge = testEdge();
  edge.cluster.addWorkload("app");
  assert.equal((await edge.call("GET /api/v1/snapshots")).json, []);
  assert.equal((await edge.call("GET /api/v1/workloads/app/snapshots")).json, []);
  assert.is((await edge.call("GET /api/v1/workloads/none/snapshots")).status, 404);
});

test("without a view of the cluster, what needs it is a 503 that says so", async () => {
  const edge = testEdge();
  edge.cluster.addClaim({ tenantId: "a", workloadRef: "app", status: { phase: "Active" } });
  edge.cluster.isFresh = false;
  const body = { workload: "app" };
  for (const target of [
    "GET /api/v1/stats",
    "GET /api/v1/tenants",
    "GET /api/v1/tenants/a",
    "POST /api/v1/tenants/a/claim",
    "POST /api/v1/tenants/a/release",
  ]) {
    const called = edge.call(target, target.startsWith("POST") ? { body } : {});
    // Claims and releases wait for it.
    if (target.startsWith("POST")) await edge.clock.pass(5000);
    const answer = await called;
    assert.is(answer.status, 503, target);
    assert.is(
      answer.error,
      "the cache of the cluster is not current (starting up, or the cluster cannot be reached); try again shortly",
    );
    assert.is(answer.headers.get("retry-after"), "1");
  }
});

test("a claim waits for a watch that is behind for some seconds", async () => {
  const edge = testEdge();
  edge.cluster.isFresh = false;
  const called = edge.call("POST /api/v1/tenants/a/claim", { body: { workload: "none" } });
  await edge.clock.pass(4000);
  edge.cluster.isFresh = true;
  await edge.clock.pass(1000);
  assert.match((await called).error ?? "", 'workload "none" does not exist');
});

test.run();
