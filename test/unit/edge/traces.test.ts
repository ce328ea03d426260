// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { annotation } from "../../../crds/labels.ts";
import { exportRequest } from "../../../crds/tracing/otlp-json.ts";
import { formatTraceparent, releaseTrace } from "../../../crds/tracing/trace-context.ts";
import type { EndedSpan } from "../../../crds/tracing/tracer.ts";
import { createFindLivePod } from "../../../edge/cluster/live-pod.ts";
import { createWaking } from "../../../edge/proxy/wake/waking.ts";
import { eventually } from "../../eventually.ts";
import { createRecorder } from "../tracing/recorder.ts";
import { active, claim, NAME, pair, release, waiting } from "./claim-calls.ts";
import { FakeCluster, NAMESPACE } from "./fake-cluster.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("traces of the edge");
const TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
const traceparent = `00-${TRACE}-00f067aa0ba902b7-01`;

function tracedEdge(options: Parameters<typeof testEdge>[0] = {}) {
  const recorder = createRecorder();
  const edge = testEdge({ ...options, tracer: recorder.tracer });
  edge.cluster.addWorkload("app");
  return { edge, ...recorder };
}

async function claimCold(edge: TestEdge, headers: Record<string, string> = {}) {
  const called = edge.call("POST /api/v1/tenants/a/claim", { body: { workload: "app" }, headers });
  await waiting(edge);
  edge.cluster.setStatus(NAME, active);
  return called;
}

function written({ cluster }: TestEdge, verb: "create" | "patch"): Claim {
  const call = cluster.calls.find((made) => made.verb === verb);
  if (call === undefined) throw new Error(`no ${verb} was made`);
  return call.body as Claim;
}

const carried = (edge: TestEdge) => edge.cluster.claim(NAME).metadata.annotations?.[annotation.traceparent];

test("a claim call is in its caller's trace, and its context goes on the claim", async () => {
  const { edge, family, one, spans } = tracedEdge();
  assert.is((await claimCold(edge, { traceparent })).status, 201);
  const call = "POST /api/v1/tenants/:id/claim";
  assert.equal(family(), [call, `${call} > create claim`, `${call} > wait until Active`]);
  assert.ok(spans.every(({ context }) => context.traceId === TRACE));
  assert.is(one(call).parentSpanId, "00f067aa0ba902b7");
  assert.is(one(call).kind, "server");
  assert.equal(one(call).attributes, {
    "http.request.method": "POST",
    "http.route": "/api/v1/tenants/:id/claim",
    "http.response.status_code": 201,
    "url.scheme": "http",
    "tenancy.tenant": "a",
    "tenancy.workload": "app",
    "tenancy.claim.source": "pool",
    "k8s.pod.name": active.instanceId,
  });
  assert.is(carried(edge), formatTraceparent(one("create claim").context));
});

test("a wrong traceparent, or none, begins a trace; one that is not sampled is carried and not recorded", async () => {
  const wrong = tracedEdge();
  await claimCold(wrong.edge, { traceparent: `${traceparent}-x` });
  const root = wrong.one("POST /api/v1/tenants/:id/claim");
  assert.is(root.parentSpanId, undefined);
  assert.is.not(root.context.traceId, TRACE);

  const unsampled = tracedEdge();
  await claimCold(unsampled.edge, { traceparent: `00-${TRACE}-00f067aa0ba902b7-00` });
  assert.equal(unsampled.spans, []);
  assert.match(carried(unsampled.edge) ?? "", new RegExp(`^00-${TRACE}-[0-9a-f]{16}-00$`));
});

test("without tracing nothing is added to the claim, and with it no call to the API server is", async () => {
  const plain = testEdge();
  plain.cluster.addWorkload("app");
  await claimCold(plain, { traceparent });
  const annotationsOf = (edge: TestEdge) => Object.keys(written(edge, "create").metadata.annotations ?? {});
  assert.equal(annotationsOf(plain), [annotation.workloadSeen, annotation.requestedAt]);
  const traced = tracedEdge();
  await claimCold(traced.edge, { traceparent });
  assert.equal(annotationsOf(traced.edge), [...annotationsOf(plain), annotation.traceparent]);
  assert.equal(traced.edge.cluster.verbs(), plain.cluster.verbs());
});

test("a claim that is tried anew has the context of this attempt, and never that of an earlier one", async () => {
  const failed = { ...pair, status: { phase: "Error", reason: "StartTimeout" } } as const;
  const traced = tracedEdge();
  traced.edge.cluster.addClaim(failed);
  await claimCold(traced.edge, { traceparent });
  assert.is(carried(traced.edge), formatTraceparent(traced.one("revive claim").context));

  // Tracing was switched off since.
  const plain = testEdge();
  plain.cluster.addWorkload("app");
  for (const left of [undefined, traceparent]) {
    const { metadata } = plain.cluster.addClaim(failed);
    if (left !== undefined) metadata.annotations = { ...metadata.annotations, [annotation.traceparent]: left };
    plain.cluster.calls.length = 0;
    await claimCold(plain);
    const patched = written(plain, "patch").metadata.annotations ?? {};
    assert.is(annotation.traceparent in patched, left !== undefined);
    assert.is(carried(plain) ?? null, null);
  }
});

test("a call that waits on another's claim names that one's trace", async () => {
  const { edge, spans } = tracedEdge();
  const first = claim(edge);
  await waiting(edge);
  const second = claim(edge);
  await waiting(edge, 2);
  edge.cluster.setStatus(NAME, active);
  await Promise.all([first, second]);
  const created = spans.find(({ name }) => name === "create claim")?.context;
  const waits = spans.filter(({ name }) => name === "wait until Active");
  const linked = (wait: EndedSpan) => wait.links.map(({ spanId }) => spanId);
  assert.equal(waits.map((wait) => [wait.context.traceId === created?.traceId, ...linked(wait)]).sort(), [
    [false, created?.spanId],
    [true],
  ]);
});

test("a claim that fails is a failed call", async () => {
  const { edge, one } = tracedEdge();
  const called = claim(edge);
  await waiting(edge);
  edge.cluster.setStatus(NAME, { phase: "Error", reason: "StartTimeout", message: "s3cret of the log" });
  assert.is((await called).status, 500);
  for (const name of ["POST /api/v1/tenants/:id/claim", "wait until Active"]) {
    assert.is(one(name).isError, true);
    assert.is(one(name).attributes["error.type"], "500");
  }
});

test("a release names the trace in which the operator releases", async () => {
  const { edge, one } = tracedEdge();
  edge.cluster.addClaim({ ...pair, status: active });
  const { uid = "" } = edge.cluster.claim(NAME).metadata;
  await release(edge);
  assert.equal(one("delete claim").links, [releaseTrace(uid)]);
  assert.is(one("delete claim").parentSpanId, one("POST /api/v1/tenants/:id/release").context.spanId);
});

test("reads begin no trace, and strangers leave none", async () => {
  const { edge, spans, one } = tracedEdge({ apiKey: "the-key" });
  const authorization = "Bearer the-key";
  await edge.call("GET /api/v1/tenants", { headers: { authorization } });
  for (const target of ["GET /api/v1/tenants", "POST /api/v1/tenants/a/claim", "POST /nowhere"])
    assert.is((await edge.call(target, { headers: { traceparent } })).status, 401);
  const open = { "GET /api/v1/health": 200, "GET /api/v1/stats": 200, "POST /api/v1/health": 405 };
  for (const [target, status] of Object.entries(open))
    assert.is((await edge.call(target, { headers: { traceparent } })).status, status, target);
  assert.equal(spans, []);
  await edge.call("GET /api/v1/tenants", { headers: { authorization, traceparent } });
  assert.is(one("GET /api/v1/tenants").context.traceId, TRACE);
  assert.is((await edge.call("PURGE /api/v1/tenants", { headers: { authorization } })).status, 405);
  assert.is(spans.at(-1)?.attributes["http.request.method"], "_OTHER");
});

test("no attribute holds a path, a query, a header or a body", async () => {
  const { edge, spans } = tracedEdge({ apiKey: "s3cret-key" });
  const headers = {
    authorization: "Bearer s3cret-key",
    traceparent,
    tracestate: "v=s3cret",
    "x-request-id": "s3cret",
    "user-agent": "s3cret",
    cookie: "a=s3cret",
  };
  await edge.call("POST /api/v1/tenants/a/claim?s3cret=s3cret", { headers, body: { workload: "app" } });
  await edge.call("POST /api/v1/tenants/a/claim", { headers, body: { workload: "app", s3cret: "s3cret" } });
  await edge.call("POST /s3cret/path", { headers, body: "s3cret" });
  assert.is(spans.length, 3);
  assert.not.match(exportRequest(spans, {}), "s3cret");
});

test("all who wake an instance share one trace of its own", async () => {
  const cluster = new FakeCluster();
  cluster.addWorkload("app");
  const { tracer, family, one } = createRecorder();
  const { cache } = cluster;
  const shared = { cluster: cluster.cluster, namespace: NAMESPACE, cache, clock: systemClock };
  const claims = {
    ...{ ...shared, tracer, waiters: cluster.waiters, findLivePod: createFindLivePod(shared) },
    ...{ randomId: () => "x", waitLimitMs: 60_000, timeOfDay: systemClock.now },
  };
  const waking = createWaking({ claims, isFound: () => true, atOnce: 4 });
  const gone = new AbortController().signal;
  const woken = [1, 2].map(() => waking.wake(pair, { gone, isInsider: false }));
  await eventually(() => cluster.waiters.size === 1);
  cluster.setStatus(NAME, active);
  await Promise.all(woken);
  assert.equal(family(), ["wake instance", "wake instance > create claim", "wake instance > wait until Active"]);
  assert.is(one("wake instance").attributes["k8s.pod.name"], active.instanceId);
});

test.run();
