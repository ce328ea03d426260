import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ClaimResponse } from "../../../crds/claims/claim-response.ts";
import { createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createTransport, type Transport } from "../../../crds/client/transport.ts";
import { claims } from "../../../crds/kinds.ts";
import { loadConfig } from "../../../edge/config.ts";
import { type Edge, startEdge } from "../../../edge/edge.ts";
import { serveNode } from "../../../edge/serve/node.ts";
import { silentLog } from "../../unit/silent-log.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("claims by the API");
let tenancy: Tenancy;
const edges: { edge: Edge; transport: Transport }[] = [];

test.before(async () => {
  tenancy = await startTenancy("test-api-claims");
  tenancy.startOperator({ config: { startTimeoutMs: 20_000 } });
  // Two edges, as two replicas behind a balancer.
  for (const index of [0, 1]) {
    const config = loadConfig({ TENANCY_LISTEN: "127.0.0.1:0", TENANCY_EDGE_METRICS_LISTEN: "off" });
    const transport = createTransport({
      config: await loadClusterConfig({ kubeconfigPath: tenancy.cluster.kubeconfigPath }),
      role: `edge-${index}`,
    });
    const edge = await startEdge({
      config,
      client: createClusterClient({ transport }),
      serve: serveNode,
      log: silentLog,
    });
    await edge.synced;
    edges.push({ edge, transport });
  }
  for (const name of ["hello", "c", "b-c"]) {
    const { status } = await call(0, "POST", "/workloads", { name, spec: { image: { ref: "simulated/hello:1" } } });
    assert.is(status, 201);
  }
});

test.after(async () => {
  for (const { edge, transport } of edges) {
    await edge.stop({ graceMs: 1000 });
    transport.close();
  }
  await tenancy?.stop();
});

interface Answer {
  status: number;
  body: ClaimResponse & { error?: string; claims?: ClaimResponse[] };
}

async function call(replica: number, method: string, path: string, body?: unknown): Promise<Answer> {
  const response = await fetch(`${edges[replica]?.edge.url}/api/v1${path}`, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
  });
  return { status: response.status, body: (await response.json()) as Answer["body"] };
}

function claim(tenantId: string, workload: string, replica = 0): Promise<Answer> {
  return call(replica, "POST", `/tenants/${encodeURIComponent(tenantId)}/claim`, { workload });
}

test("a claim answers 201 with the running instance; claimed again it is existing, and listed", async () => {
  const first = await claim("alice", "hello");
  assert.is(first.status, 201);
  assert.is(first.body.source, "cold");
  assert.is(first.body.phase, "Active");
  assert.match(first.body.instanceId ?? "", /^inst-alice-hello-/);
  const again = await claim("alice", "hello");
  assert.equal([again.status, again.body.source, again.body.instanceId], [201, "existing", first.body.instanceId]);
  const { body } = await call(0, "GET", "/tenants/alice");
  assert.equal(
    body.claims?.map(({ instanceId }) => instanceId),
    [first.body.instanceId],
  );
});

test("two tenants that claim at once get two pods", async () => {
  const [bob, carol] = await Promise.all([claim("bob", "hello", 0), claim("carol", "hello", 1)]);
  assert.equal([bob.status, carol.status], [201, 201]);
  assert.is.not(bob.body.instanceId, carol.body.instanceId);
});

test("one tenant that claims from many clients and two replicas at once gets one pod, the same in every answer", async () => {
  const answers = await Promise.all(Array.from({ length: 12 }, (_, index) => claim("eager", "hello", index % 2)));
  assert.equal([...new Set(answers.map(({ status }) => status))], [201]);
  assert.is(new Set(answers.map(({ body }) => body.instanceId)).size, 1);
  const made = await tenancy.client.get(claims, { namespace: NAMESPACE, name: "claim-eager-hello" });
  assert.is((await tenancy.everPodsOf(made)).length, 1);
});

test("tenant a on b-c and tenant a-b on c share a readable name, and get two claims and two pods; Alice is not alice", async () => {
  const answers = await Promise.all([
    claim("a", "b-c"),
    claim("a-b", "c"),
    claim("Alice", "hello"),
    claim("alice", "hello"),
  ]);
  assert.equal(
    answers.map(({ status }) => status),
    [201, 201, 201, 201],
  );
  assert.equal(
    answers.map(({ body }) => body.tenantId),
    ["a", "a-b", "Alice", "alice"],
  );
  assert.is(new Set(answers.map(({ body }) => body.instanceId)).size, 4);
});

test("a claim right after a release waits for its end and gets a new pod, on either replica", async () => {
  for (const replica of [0, 1]) {
    const before = await claim("again", "hello", replica);
    const released = await call(replica, "POST", "/tenants/again/release", { workload: "hello" });
    assert.equal(released, {
      status: 200,
      body: { status: "released", tenantId: "again" } as unknown as Answer["body"],
    });
    const after = await claim("again", "hello", replica);
    assert.is(after.status, 201);
    assert.is.not(after.body.instanceId, before.body.instanceId);
    assert.is.not(after.body.source, "existing");
  }
});

test("release?wait=true answers when the pod and the claim are gone; released again it is 404", async () => {
  await claim("leaving", "hello");
  const made = await tenancy.client.get(claims, { namespace: NAMESPACE, name: "claim-leaving-hello" });
  assert.is((await call(0, "POST", "/tenants/leaving/release?wait=true", { workload: "hello" })).status, 200);
  assert.is((await tenancy.podsOf(made)).length, 0);
  assert.is((await call(0, "POST", "/tenants/leaving/release", { workload: "hello" })).status, 404);
});

test("each failure has its status and says what to do, and claiming again tries anew", async () => {
  const failures = [
    { image: "simulated/missing:1", status: 500, says: /cannot be pulled.*mend the workload/ },
    { image: "simulated/crash:1", status: 500, says: /ends again and again/ },
    { image: "simulated/never-ready:1", status: 500, says: /not ready 20 s after/ },
  ];
  for (const [index, { image, status, says }] of failures.entries()) {
    const name = `failing-${index}`;
    await call(0, "POST", "/workloads", { name, spec: { image: { ref: image } } });
    const failed = await claim("alice", name);
    assert.is(failed.status, status, JSON.stringify(failed.body));
    assert.match(failed.body.error ?? "", says);
    await call(0, "PUT", `/workloads/${name}`, { name, spec: { image: { ref: "simulated/hello:1" } } });
    const mended = await claim("alice", name);
    assert.equal([mended.status, mended.body.source], [201, "cold"], JSON.stringify(mended.body));
  }
  const unknown = await claim("alice", "nowhere");
  assert.is(unknown.status, 404);
  assert.match(unknown.body.error ?? "", /nowhere/);
});

test("a claim sent right after its workload was made is fulfilled", async () => {
  for (let index = 0; index < 10; index++) {
    const name = `fresh-${index}`;
    await call(0, "POST", "/workloads", { name, spec: { image: { ref: "simulated/hello:1" } } });
    assert.is((await claim("alice", name, index % 2)).status, 201);
  }
});

test.run();
