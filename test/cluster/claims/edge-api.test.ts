// @limit 600
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { claims, workloads } from "../../../crds/kinds.ts";
import { finalizer } from "../../../crds/labels.ts";
import { hashedClaimName } from "../../../crds/names.ts";
import { eventually } from "../../eventually.ts";
import { createPodOf, startActingOperator } from "../../unit/edge/acting-operator.ts";
import { type EdgeProcess, runtimes, startEdgeProcess } from "../../unit/edge/edge-process.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const KEY = "cluster-test-key";
/** Every claim object has an address of its own. */
const addresses = new Map<string, string>();
const addressOf = ({ metadata: { uid = "" } }: Claim): string => {
  const number = addresses.size + 1;
  return addresses.get(uid) ?? (addresses.set(uid, `10.1.${number >> 8}.${number & 255}`).get(uid) as string);
};
const active = (claim: Claim): ClaimStatus => ({
  phase: "Active",
  instanceId: `inst-${claim.metadata.uid}`,
  endpoint: { host: addressOf(claim), port: 8080 },
  source: "pool",
  claimedAt: "2026-01-01T00:00:00Z",
});

let tenancy: Tenancy;
let client: ClusterClient;
let operator: { recheck(): void };
let held = new Set<string>();
const ending = new AbortController();

const test = suite("edge on a real API server");
test.before(async () => {
  tenancy = await startTenancy("edge", { nodes: false });
  ({ client } = tenancy);
  operator = await startActingOperator({
    client,
    namespace: NAMESPACE,
    signal: ending.signal,
    letGo: (claim) => !held.has(claim.spec.tenantId),
    answers(claim, attempt) {
      switch (claim.spec.workloadRef) {
        case "slow":
          return undefined;
        case "flaky":
          return attempt === 1
            ? { phase: "Error", reason: "StartTimeout", message: "it never became ready" }
            : active(claim);
        case "broken":
          return { phase: "Error", reason: "ImagePullFailed", message: `no image, attempt ${attempt}` };
        default:
          return active(claim);
      }
    },
  });
  for (const name of ["app", "slow", "flaky", "broken", "b-c"]) {
    await tenancy.createWorkload(name);
  }
});

let edge: EdgeProcess;
const start = (runtime: keyof typeof runtimes, env: Record<string, string> = {}) =>
  startEdgeProcess(runtime, { KUBECONFIG: tenancy.cluster.kubeconfigPath, TENANCY_API_KEY: KEY, ...env });

for (const runtime of Object.keys(runtimes) as (keyof typeof runtimes)[]) {
  test(`${runtime}: starts, is ready, and measures itself`, async () => {
    edge = await start(runtime);
    await eventually(async () => (await fetch(`${edge.metricsUrl}/readyz`)).status === 200);
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
    const spec = { image: { ref: "example.com/app:1" } };
    const created = await call("POST /api/v1/workloads", { name, spec });
    assert.is(created.status, 201, created.text);
    assert.is((await call("POST /api/v1/workloads", { name, spec })).status, 409);
    const stored = await client.get(workloads, { namespace: NAMESPACE, name });
    assert.equal(stored.metadata.finalizers, [finalizer.inUse]);
    assert.equal((await call(`GET /api/v1/workloads/${name}`)).json.createdAt, stored.metadata.creationTimestamp);

    const changed = await call(`PUT /api/v1/workloads/${name}`, {
      name,
      spec: { image: { ref: "example.com/app:2" }, version: "2" },
    });
    assert.is(changed.status, 200, changed.text);
    assert.is((await client.get(workloads, { namespace: NAMESPACE, name })).spec.image.ref, "example.com/app:2");
    assert.match((await call("GET /api/v1/workloads")).text, `"name":"${name}"`);
    assert.equal((await call(`GET /api/v1/workloads/${name}/snapshots`)).json, []);

    assert.equal((await call(`DELETE /api/v1/workloads/${name}`)).json, { status: "deleted" });
    await client.patch(
      workloads,
      { namespace: NAMESPACE, name },
      { type: "merge", body: { metadata: { finalizers: null } } },
    );
    assert.is((await call(`GET /api/v1/workloads/${name}`)).status, 404);
    assert.is((await call(`DELETE /api/v1/workloads/${name}`)).status, 404);
  });

  test(`${runtime}: a claim is made, found again, released, and made anew`, async () => {
    const tenant = `t-${runtime}`;
    const first = await claim(tenant, "app");
    assert.is(first.status, 201, first.text);
    assert.is(first.json.source, "pool");
    const again = await claim(tenant, "app");
    assert.is(again.json.source, "existing");
    assert.is(again.json.instanceId, first.json.instanceId);
    assert.equal((await call(`GET /api/v1/tenants/${tenant}`)).json.claims?.length, 1);

    held.add(tenant);
    assert.equal((await release(tenant, "app")).json, { status: "released", tenantId: tenant });
    const next = claim(tenant, "app");
    const waits = await Promise.race([next, new Promise((resolve) => setTimeout(resolve, 300, "waits"))]);
    assert.is(waits, "waits", "a claim was answered while the release was under way");
    held = new Set();
    operator.recheck();
    const anew = await next;
    assert.is(anew.status, 201, anew.text);
    assert.is(anew.json.source, "pool");
    assert.is.not(anew.json.instanceId, first.json.instanceId);
    const gone = await release(tenant, "app", "?wait=true");
    assert.is(gone.status, 200, gone.text);
    assert.equal((await call(`GET /api/v1/tenants/${tenant}`)).json.claims, []);
    assert.is((await release(tenant, "app")).status, 404);
  });

  test(`${runtime}: a release of any kind ends the call that waits, and the claim is not made again`, async () => {
    const tenant = `r-${runtime}`;
    const ref = { namespace: NAMESPACE, name: `claim-${tenant}-slow` };
    const isThere = () =>
      client.get(claims, ref).then(
        () => true,
        () => false,
      );
    for (const end of [() => release(tenant, "slow", "?wait=true"), () => client.delete(claims, ref)]) {
      const pending = claim(tenant, "slow");
      await eventually(isThere);
      await end();
      const answer = await pending;
      assert.is(answer.status, 409, answer.text);
      assert.match(answer.text, "the claim was released while this call waited");
      await eventually(async () => !(await isThere()));
    }
    await eventually(async () => (await call(`GET /api/v1/tenants/${tenant}`)).json.claims?.length === 0);
  });

  test(`${runtime}: a failed claim tells why, and claiming again tries again`, async () => {
    const failed = await claim(`f-${runtime}`, "flaky");
    assert.is(failed.status, 500);
    assert.equal(failed.json, { error: "it never became ready" });
    const retried = await claim(`f-${runtime}`, "flaky", { resume: true });
    assert.is(retried.status, 201, retried.text);
    const stored = await client.get(claims, { namespace: NAMESPACE, name: `claim-f-${runtime}-flaky` });
    assert.is(stored.spec.resume, true);
    assert.equal((await claim(`x-${runtime}`, "broken")).json, { error: "no image, attempt 1" });
    assert.equal((await claim(`x-${runtime}`, "broken")).json, { error: "no image, attempt 2" });
    assert.is((await claim(`x-${runtime}`, "no-such-workload")).status, 404);
    assert.is((await call(`GET /api/v1/tenants/x-${runtime}`)).json.claims?.length, 1);
  });

  test(`${runtime}: two pairs that derive one name get two claims`, async () => {
    const [tenant, other] = [`n${runtime}`, `n${runtime}-b`];
    await client
      .create(workloads, { metadata: { name: "c", namespace: NAMESPACE }, spec: { image: { ref: "a:1" } } })
      .catch(() => undefined);
    const one = await claim(other, "c");
    const two = await claim(tenant, "b-c");
    assert.is(one.status, 201, one.text);
    assert.is(two.status, 201, two.text);
    assert.is.not(one.json.instanceId, two.json.instanceId);
    const hashed = await client.get(claims, {
      namespace: NAMESPACE,
      name: hashedClaimName({ tenantId: tenant, workloadRef: "b-c" }),
    });
    assert.is(hashed.spec.tenantId, tenant);
    assert.is((await release(tenant, "b-c", "?wait=true")).status, 200);
    assert.is((await claim(other, "c")).json.source, "existing");
  });

  test(`${runtime}: a stop lets the claim in flight finish`, async () => {
    const tenant = `s-${runtime}`;
    const pending = claim(tenant, "slow");
    const name = `claim-${tenant}-slow`;
    await eventually(() =>
      client.get(claims, { namespace: NAMESPACE, name }).then(
        () => true,
        () => false,
      ),
    );
    edge.child.kill("SIGTERM");
    await eventually(() =>
      fetch(`${edge.url}/api/v1/health`).then(
        () => false,
        () => true,
      ),
    );
    const found = await client.get(claims, { namespace: NAMESPACE, name });
    const body = { status: active(found) };
    await createPodOf(found, body.status, client);
    await client.patch(claims, { namespace: NAMESPACE, name }, { type: "merge", subresource: "status", body });
    assert.is((await pending).status, 201);
    assert.is(await edge.exited, 0, edge.lines.join("\n"));
    assert.not.ok(edge.lines.join("\n").includes(KEY));
  });
}

test("two processes that are asked for one pair at once make one claim", async () => {
  const both = [await start("bun"), await start("node")];
  for (const { metricsUrl } of both) await eventually(async () => (await fetch(`${metricsUrl}/readyz`)).status === 200);
  for (let round = 0; round < 5; round += 1) {
    const tenant = `both-${round}`;
    const answers = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        edge = both[index % 2] as EdgeProcess;
        return claim(tenant, "app");
      }),
    );
    assert.equal([...new Set(answers.map(({ status, text }) => (status === 201 ? 201 : text)))], [201]);
    assert.is(new Set(answers.map(({ json }) => json.instanceId)).size, 1);
    const { items } = await client.list(claims, { namespace: NAMESPACE });
    assert.is(items.filter(({ spec }) => spec.tenantId === tenant).length, 1);
  }
  for (const { child, exited } of both) {
    child.kill("SIGINT");
    assert.is(await exited, 0);
  }
});

test("existing costs the API server one look at the pod, and no other call", async () => {
  edge = await start("bun");
  await eventually(async () => (await claim("fast", "app")).status === 201);
  const { instanceId: name = "" } = (await claim("fast", "app")).json;
  const looked = await timed(() => client.get(pods, { namespace: NAMESPACE, name }));
  const before = { claims: await callsFor("tenancyclaims"), pods: await callsFor("pods") };
  const claimed = await timed(() => call("POST /api/v1/tenants/fast/claim", { workload: "app" }));
  console.log(`note: existing over Bun, one at a time: ${claimed}; a bare look at a pod: ${looked}`);
  // A call that the first claim made may be counted late.
  const calls = (await callsFor("tenancyclaims")) - before.claims;
  assert.ok(calls < 10, `${calls} calls about claims for 1000 of them`);
  const looks = (await callsFor("pods")) - before.pods;
  assert.ok(looks >= 1000 && looks < 1010, `${looks} calls about pods for 1000 claims`);
});

/** Makes a call a thousand times, one after the other, and says how long each took. */
async function timed(call: () => Promise<unknown>): Promise<string> {
  const times: number[] = [];
  for (let count = 0; count < 1000; count += 1) {
    const from = performance.now();
    await call();
    times.push(performance.now() - from);
  }
  times.sort((a, b) => a - b);
  return `p50 ${times[500]?.toFixed(2)} ms, p99 ${times[990]?.toFixed(2)} ms`;
}

/** How many calls about a kind the API server has answered, its watches not counted. */
async function callsFor(plural: string): Promise<number> {
  const { body } = await client.request({ method: "GET", path: "/metrics" });
  const counts = body.toString().matchAll(/^apiserver_request_total\{(.*)\} (\d+)$/gm);
  return [...counts]
    .filter(([, labels]) => labels?.includes(`resource="${plural}"`) && !labels.includes('verb="WATCH"'))
    .reduce((sum, [, , count]) => sum + Number(count), 0);
}

test("a claim call may be silent for its 30 s, and ends in 504", async () => {
  const from = Date.now();
  const answer = await claim("patient", "slow");
  assert.is(answer.status, 504, answer.text);
  assert.match(answer.text, /workload .+slow.+ is not ready for tenant .+patient.+ after 30 s/);
  assert.ok(Date.now() - from >= 30_000);
  assert.ok(await client.get(claims, { namespace: NAMESPACE, name: "claim-patient-slow" }));
});

test("while the API server is away it is 503, health stays, and it all comes back", async () => {
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

test("a second signal ends it at once", async () => {
  const pending = claim("impatient", "slow").catch(() => undefined);
  await eventually(() =>
    client.get(claims, { namespace: NAMESPACE, name: "claim-impatient-slow" }).then(
      () => true,
      () => false,
    ),
  );
  edge.child.kill("SIGTERM");
  await eventually(() =>
    fetch(`${edge.url}/api/v1/health`).then(
      () => false,
      () => true,
    ),
  );
  edge.child.kill("SIGTERM");
  assert.is(await edge.exited, 143);
  await pending;
});

for (const runtime of Object.keys(runtimes) as (keyof typeof runtimes)[]) {
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

test.after(async () => {
  edge?.child.kill("SIGKILL");
  ending.abort();
  await tenancy?.stop();
});

test.run();

/** What these tests look at in a body. */
interface Body {
  error?: string;
  source?: string;
  instanceId?: string;
  endpoint?: { host: string };
  createdAt?: string;
  claims?: object[];
}

interface Answer {
  status: number;
  text: string;
  json: Body;
}

async function call(target: string, body?: object): Promise<Answer> {
  const [method = "GET", path = "/"] = target.split(" ");
  const init: RequestInit = { method, headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" } };
  if (body !== undefined) init.body = JSON.stringify(body);
  const response = await fetch(`${edge.url}${path}`, init);
  const text = await response.text();
  return { status: response.status, text, json: JSON.parse(text) };
}

/** An answer that gives an instance gives the pair's own, at its own address. */
async function claim(tenant: string, workload: string, more: object = {}): Promise<Answer> {
  const answer = await call(`POST /api/v1/tenants/${tenant}/claim`, { workload, ...more });
  const { instanceId, endpoint } = answer.json;
  if (answer.status === 201) {
    const { metadata, spec } = await client.get(pods, { namespace: NAMESPACE, name: instanceId ?? "" });
    const [who, what] = [metadata.labels?.["tenancy.dev/tenant"], spec.containers[0]?.name];
    assert.equal([who, metadata.labels?.["tenancy.dev/workload"], what], [tenant, workload, "workload"]);
    assert.is(endpoint?.host, addresses.get(instanceId?.replace("inst-", "") ?? ""), "another's address");
  }
  return answer;
}

function release(tenant: string, workload: string, query = ""): Promise<Answer> {
  return call(`POST /api/v1/tenants/${tenant}/release${query}`, { workload });
}
