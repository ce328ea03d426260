// @own-cluster
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { WebSocket } from "ws";
import type { ClaimResponse } from "../../../crds/claims/claim-response.ts";
import { isNotFound } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { claims, workloads } from "../../../crds/kinds.ts";
import { finalizer } from "../../../crds/labels.ts";
import { claimName, hashedClaimName } from "../../../crds/names.ts";
import { BEHAVIOUR_ANNOTATION } from "../../../scripts/cluster/simulated/behaviour.ts";
import { eventually } from "../../eventually.ts";
import { type EdgeProcess, runtimes, startEdgeProcess, startReadyEdge } from "../../unit/edge/edge-process.ts";
import { edgeRuntimes } from "../edge-runtimes.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const KEY = "cluster-test-key";
type Runtime = keyof typeof runtimes;
const others = (Object.keys(runtimes) as Runtime[]).filter((runtime) => !edgeRuntimes.includes(runtime));
const CLAIMS = 100;

let tenancy: Tenancy;
let client: ClusterClient;
/** Two that run side by side, as replicas behind a balancer. */
let replicas: [EdgeProcess, EdgeProcess];
let edge: EdgeProcess;
/** A claim call whose pod never becomes ready, made before all others. */
let patient: Promise<{ answer: Answer; ms: number }>;

const test = suite("the edge on a real API server, with an operator");
/** For the last test, where one stop is in its delay; none of them waits for its end. */
const LONG_DELAY = { TENANCY_STOP_DELAY: "300" };
const start = (runtime: Runtime, env: Record<string, string> = { TENANCY_STOP_DELAY: "1" }) =>
  startReadyEdge(runtime, { KUBECONFIG: tenancy.cluster.kubeconfigPath, TENANCY_API_KEY: KEY, ...env });

test.before(async () => {
  tenancy = await startTenancy("edge");
  ({ client } = tenancy);
  tenancy.startOperator();
  for (const name of ["app", "c", "b-c"]) await tenancy.createWorkload(name);
  await tenancy.createWorkload("slow", { image: { ref: "simulated/never-ready:1" } });
  replicas = [await start("bun", LONG_DELAY), await start("node", LONG_DELAY)];
  edge = replicas[0];
});

test("existing costs the API server one look at the pod and one at the claim, and no other call", async () => {
  await claim("fast", "app");
  const before = { claims: await callsFor("tenancyclaims"), pods: await callsFor("pods") };
  for (let count = 0; count < CLAIMS; count += 1)
    assert.is((await call("POST /api/v1/tenants/fast/claim", { workload: "app" })).json.source, "existing");
  for (const [kind, plural] of [
    ["pods", "pods"],
    ["claims", "tenancyclaims"],
  ] as const) {
    const looks = (await callsFor(plural)) - before[kind];
    // A call that the first claim made may be counted late.
    assert.ok(looks >= CLAIMS && looks < CLAIMS + 10, `${looks} calls about ${kind} for ${CLAIMS} claims`);
  }
  const from = Date.now();
  patient = claim("patient", "slow").then((answer) => ({ answer, ms: Date.now() - from }));
  patient.catch(() => undefined); // Its own test waits for it.
});

/** How many calls about a kind the API server has answered, its watches not counted. */
async function callsFor(plural: string): Promise<number> {
  const { body } = await client.request({ method: "GET", path: "/metrics" });
  const counts = body.toString().matchAll(/^apiserver_request_total\{(.*)\} (\d+)$/gm);
  return [...counts]
    .filter(([, labels]) => labels?.includes(`resource="${plural}"`) && !labels.includes('verb="WATCH"'))
    .reduce((sum, [, , count]) => sum + Number(count), 0);
}

for (const runtime of edgeRuntimes) {
  test(`${runtime}: starts, is ready, and measures itself`, async () => {
    edge = await start(runtime);
    assert.equal((await call("GET /api/v1/health")).json, { status: "ok" });
    assert.is((await fetch(`${edge.url}/api/v1/tenants`)).status, 401);
    assert.is((await fetch(`${edge.metricsUrl}/healthz`)).status, 200);
    const metrics = await (await fetch(`${edge.metricsUrl}/metrics`)).text();
    assert.match(
      metrics,
      'tenancy_edge_request_duration_seconds_count{method="GET",route="/api/v1/health",status="200"} 1',
    );
    assert.match(metrics, "tenancy_edge_cluster_contact 1");
    assert.is((await fetch(`${edge.url}/metrics`)).status, 401);
  });

  test(`${runtime}: workloads are made, read, changed and deleted`, async () => {
    const name = `made-by-${runtime}`;
    const path = `/api/v1/workloads/${name}`;
    const spec = { image: { ref: "simulated/hello:1" } };
    const created = await call("POST /api/v1/workloads", { name, spec });
    assert.is(created.status, 201, created.text);
    assert.is((await call("POST /api/v1/workloads", { name, spec })).status, 409);
    const stored = await client.get(workloads, { namespace: NAMESPACE, name });
    assert.equal(stored.metadata.finalizers, [finalizer.inUse]);
    assert.equal((await call(`GET ${path}`)).json.createdAt, stored.metadata.creationTimestamp);
    const changed = await call(`PUT ${path}`, { name, spec: { image: { ref: "simulated/hello:2" }, version: "2" } });
    assert.is(changed.status, 200, changed.text);
    assert.is((await client.get(workloads, { namespace: NAMESPACE, name })).spec.image.ref, "simulated/hello:2");
    assert.match((await call("GET /api/v1/workloads")).text, `"name":"${name}"`);
    assert.equal((await call(`GET ${path}/snapshots`)).json, []);
    assert.equal((await call(`DELETE ${path}`)).json, { status: "deleted" });
    await eventually(async () => (await call(`GET ${path}`)).status === 404);
    assert.is((await call(`DELETE ${path}`)).status, 404);
  });

  test(`${runtime}: a claim is made, found again, released, and made anew once its release has ended`, async () => {
    const tenant = `t-${runtime}`;
    const first = await claim(tenant, "app");
    assert.is(first.status, 201, first.text);
    assert.equal([first.json.source, first.json.phase], ["cold", "Active"]);
    assert.match(first.json.instanceId ?? "", new RegExp(`^inst-${tenant}-app-`));
    const again = await claim(tenant, "app");
    assert.equal([again.json.source, again.json.instanceId], ["existing", first.json.instanceId]);
    const listed = (await call(`GET /api/v1/tenants/${tenant}`)).json.claims;
    assert.equal(
      listed?.map(({ instanceId }) => instanceId),
      [first.json.instanceId],
    );

    // A release ends when the pod is gone.
    const pod = { namespace: NAMESPACE, name: first.json.instanceId ?? "" };
    const held = { metadata: { finalizers: ["test.tenancy.dev/hold"] } };
    await client.patch(pods, pod, { type: "merge", body: held });
    assert.equal((await release(tenant, "app")).json, { status: "released", tenantId: tenant });
    const next = claim(tenant, "app");
    await eventually(async () => (await client.get(pods, pod)).metadata.deletionTimestamp !== undefined);
    const waits = await Promise.race([next, new Promise((resolve) => setTimeout(resolve, 300, "waits"))]);
    assert.is(waits, "waits", "a claim was answered while the release was under way");
    await client.patch(pods, pod, { type: "merge", body: { metadata: { finalizers: null } } });
    const anew = await next;
    assert.is(anew.status, 201, anew.text);
    assert.is(anew.json.source, "cold");
    assert.is.not(anew.json.instanceId, first.json.instanceId);
    const gone = await release(tenant, "app", "?wait=true");
    assert.is(gone.status, 200, gone.text);
    assert.not.ok(await isThere(tenant, "app"));
    await eventually(async () => (await call(`GET /api/v1/tenants/${tenant}`)).json.claims?.length === 0);
    assert.is((await release(tenant, "app")).status, 404);
  });

  test(`${runtime}: a release of any kind ends the call that waits, and the claim is not made again`, async () => {
    const tenant = `r-${runtime}`;
    for (const end of [
      () => release(tenant, "slow", "?wait=true"),
      () => client.delete(claims, refOf(tenant, "slow")),
    ]) {
      const pending = claim(tenant, "slow");
      await eventually(() => isThere(tenant, "slow"));
      await end();
      const answer = await pending;
      assert.is(answer.status, 409, answer.text);
      assert.match(answer.text, "the claim was released while this call waited");
      await eventually(async () => !(await isThere(tenant, "slow")));
    }
    await eventually(async () => (await call(`GET /api/v1/tenants/${tenant}`)).json.claims?.length === 0);
  });

  test(`${runtime}: a failed claim says what to do, and claiming again tries anew`, async () => {
    const tenant = `f-${runtime}`;
    for (const [image, says] of [
      ["missing", /cannot be pulled.*fix the workload/],
      ["crash", /keeps exiting/],
    ] as const) {
      const name = `${image}-${runtime}`;
      await tenancy.createWorkload(name, { image: { ref: `simulated/${image}:1` } });
      for (let attempt = 0; attempt < 2; attempt += 1) {
        const failed = await claim(tenant, name);
        assert.is(failed.status, 500, failed.text);
        assert.match(failed.json.error ?? "", says);
      }
      await call(`PUT /api/v1/workloads/${name}`, { name, spec: { image: { ref: "simulated/hello:1" } } });
      const mended = await claim(tenant, name, { resume: true });
      assert.equal([mended.status, mended.json.source], [201, "cold"], mended.text);
      assert.is((await client.get(claims, refOf(tenant, name))).spec.resume, true);
    }
    const unknown = await claim(tenant, "no-such-workload");
    assert.is(unknown.status, 404);
    assert.match(unknown.json.error ?? "", /no-such-workload/);
    assert.is((await call(`GET /api/v1/tenants/${tenant}`)).json.claims?.length, 2);
  });

  test(`${runtime}: a stop lets the claim in flight finish`, async () => {
    const tenant = `s-${runtime}`;
    const pending = claim(tenant, "slow");
    const made = await tenancy.untilClaim(claimName({ tenantId: tenant, workloadRef: "slow" }), { phase: "Pending" });
    const [pod] = await tenancy.until("its pod", async () => {
      const found = await tenancy.podsOf(made);
      return found.length > 0 && found;
    });
    await stopListening();
    const body = { metadata: { annotations: { [BEHAVIOUR_ANNOTATION]: "normal" } } };
    await client.patch(pods, { namespace: NAMESPACE, name: pod?.metadata.name ?? "" }, { type: "merge", body });
    assert.is((await pending).status, 201);
    assert.is(await edge.exited, 0, edge.lines.join("\n"));
    assert.not.ok(edge.lines.join("\n").includes(KEY));
  });

  test(`${runtime}: refuses to serve others without a key, and says the two ways out`, async () => {
    try {
      await startEdgeProcess(runtime, { KUBECONFIG: tenancy.cluster.kubeconfigPath, TENANCY_LISTEN: "0.0.0.0:0" });
      assert.unreachable("it started");
    } catch (error) {
      const { message } = error as Error;
      assert.match(message, /^ended with 1: /);
      assert.match(message, "set TENANCY_API_KEY to a secret, or TENANCY_ALLOW_ANONYMOUS=true");
    }
  });
}

for (const runtime of others) {
  test(`${runtime}: starts, claims, releases and stops`, async () => {
    edge = await start(runtime);
    assert.is((await claim(`o-${runtime}`, "app")).status, 201);
    assert.is((await release(`o-${runtime}`, "app", "?wait=true")).status, 200);
    edge.child.kill("SIGTERM");
    assert.is(await edge.exited, 0, edge.lines.join("\n"));
  });
}

test("two processes that are asked for one pair at once make one claim with one pod", async () => {
  for (let round = 0; round < 3; round += 1) {
    const tenant = `both-${round}`;
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, index) => claim(tenant, "app", {}, replicas[index % 2])),
    );
    assert.equal([...new Set(answers.map(({ status, text }) => (status === 201 ? 201 : text)))], [201]);
    assert.is(new Set(answers.map(({ json }) => json.instanceId)).size, 1);
    const { items } = await client.list(claims, { namespace: NAMESPACE });
    const [made, ...more] = items.filter(({ spec }) => spec.tenantId === tenant);
    assert.equal(more, []);
    assert.is(made && (await tenancy.everPodsOf(made)).length, 1);
  }
});

test("tenant a on b-c and tenant a-b on c share a readable name, and get two claims and two pods; Alice is not alice", async () => {
  const pairs = [
    ["a", "b-c"],
    ["a-b", "c"],
    ["Alice", "app"],
    ["alice", "app"],
  ] as const;
  edge = replicas[0];
  const answers = await Promise.all(pairs.map(([tenant, workload]) => claim(tenant, workload)));
  assert.equal(
    answers.map(({ status, json }) => [status, json.tenantId]),
    pairs.map(([tenant]) => [201, tenant]),
  );
  assert.is(new Set(answers.map(({ json }) => json.instanceId)).size, 4);
  const { items } = await client.list(claims, { namespace: NAMESPACE });
  const two = items.filter(({ spec }) => ["b-c", "c"].includes(spec.workloadRef));
  const hashed = two.filter(({ metadata, spec }) => metadata.name === hashedClaimName(spec));
  assert.equal([two.length, hashed.length], [2, 1]);
  const [released, kept] = hashed[0]?.spec.tenantId === "a" ? pairs : [pairs[1], pairs[0]];
  assert.is((await release(released[0], released[1], "?wait=true")).status, 200);
  assert.is((await claim(kept[0], kept[1])).json.source, "existing");
});

test("a claim sent right after its workload was made is fulfilled", async () => {
  for (let index = 0; index < 5; index += 1) {
    const name = `fresh-${index}`;
    edge = replicas[0];
    await call("POST /api/v1/workloads", { name, spec: { image: { ref: "simulated/hello:1" } } });
    assert.is((await claim("alice", name, {}, replicas[index % 2])).status, 201);
  }
});

test("a claim call may be silent for its 30 s, and ends in 504", async () => {
  const { answer, ms } = await patient;
  assert.is(answer.status, 504, answer.text);
  assert.match(answer.text, /workload .+slow.+ is not ready for tenant .+patient.+ after 30 s/);
  assert.ok(ms >= 30_000);
  assert.ok(await isThere("patient", "slow"));
});

test("while the API server is away it is 503, health stays, and it all comes back", async () => {
  edge = replicas[0];
  await tenancy.cluster.apiServer.stop();
  await eventually(async () => (await claim("fast", "app")).status === 503);
  assert.is((await call("GET /api/v1/health")).status, 200);
  assert.is((await call("GET /api/v1/workloads")).status, 503);
  await eventually(async () => (await fetch(`${edge.metricsUrl}/readyz`)).status === 503);
  await tenancy.cluster.apiServer.start();
  await eventually(async () => (await claim("fast", "app")).status === 201);
  // The watches come back one after the other, and this route needs two of them.
  await eventually(async () => (await call("GET /api/v1/stats")).status === 200);
  assert.match((await call("GET /api/v1/stats")).text, /"claims":\{"total":\d+,"byPhase":\{.*"Active":\d+/);
});

test("a stop first ends readiness and serves on, and a second signal ends it at once", async () => {
  for (edge of replicas) {
    const { child, url, metricsUrl, exited } = edge;
    // Each finds the API server by itself after the test before.
    await eventually(async () => (await fetch(`${metricsUrl}/readyz`)).status === 200);
    const pending = claim("impatient", "slow").catch(() => undefined);
    await eventually(() => isThere("impatient", "slow"));
    const watching = new WebSocket(`${url.replace("http", "ws")}/ws`);
    watching.on("error", () => undefined);
    await new Promise((resolve) => watching.once("open", resolve));
    const messages: string[] = [];
    watching.on("message", (data) => void messages.push(String(data)));
    child.kill("SIGTERM");
    await eventually(async () => (await fetch(`${metricsUrl}/readyz`)).status === 503);
    const tenant = `late-${url.slice(-4)}`;
    const authorization = `Bearer ${KEY}`;
    const late = await fetch(`${url}/api/v1/tenants/${tenant}/claim`, {
      method: "POST",
      headers: { "content-type": "application/json", authorization },
      body: '{"workload":"app"}',
    });
    assert.equal([late.status, late.headers.get("connection")], [201, "close"], await late.text());
    await eventually(() => messages.some((text) => text.includes(tenant)));
    child.kill("SIGTERM");
    assert.is(await exited, 143);
    await pending;
    await eventually(() => watching.readyState === WebSocket.CLOSED);
  }
});

test.after(async () => {
  for (const process of [edge, ...(replicas ?? [])]) process?.child.kill("SIGKILL");
  await tenancy?.stop();
});

test.run();

/** What these tests look at in a body. */
interface Body extends Partial<ClaimResponse> {
  error?: string;
  createdAt?: string;
  claims?: ClaimResponse[];
}

interface Answer {
  status: number;
  text: string;
  json: Body;
}

async function call(target: string, body?: object, of = edge): Promise<Answer> {
  const [method = "GET", path = "/"] = target.split(" ");
  const init: RequestInit = { method, headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" } };
  if (body !== undefined) init.body = JSON.stringify(body);
  const response = await fetch(`${of.url}${path}`, init);
  const text = await response.text();
  return { status: response.status, text, json: JSON.parse(text) };
}

/** An answer that gives an instance gives the pair's own, at its own address. */
async function claim(tenant: string, workload: string, more: object = {}, of = edge): Promise<Answer> {
  const answer = await call(`POST /api/v1/tenants/${tenant}/claim`, { workload, ...more }, of);
  const { instanceId, endpoint } = answer.json;
  if (answer.status === 201) {
    const { metadata, spec, status } = await client.get(pods, { namespace: NAMESPACE, name: instanceId ?? "" });
    const [who, what] = [metadata.labels?.["tenancy.dev/tenant"], spec.containers[0]?.name];
    assert.equal([who, metadata.labels?.["tenancy.dev/workload"], what], [tenant, workload, "workload"]);
    assert.is(endpoint?.host, status?.podIP, "another's address");
  }
  return answer;
}

function release(tenant: string, workload: string, query = ""): Promise<Answer> {
  return call(`POST /api/v1/tenants/${tenant}/release${query}`, { workload });
}

function refOf(tenantId: string, workloadRef: string) {
  return { namespace: NAMESPACE, name: claimName({ tenantId, workloadRef }) };
}

async function isThere(tenant: string, workload: string): Promise<boolean> {
  try {
    await client.get(claims, refOf(tenant, workload));
    return true;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

/** Tells the edge to stop, and waits until it takes no more calls. */
async function stopListening(): Promise<void> {
  edge.child.kill("SIGTERM");
  await eventually(() =>
    fetch(`${edge.url}/api/v1/health`).then(
      () => false,
      () => true,
    ),
  );
}
