import { suite } from "uvu";
import * as assert from "uvu/assert";
import WebSocket from "ws";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createExec } from "../../../crds/client/exec/exec.ts";
import { compareResourceVersions } from "../../../crds/client/watch/store.ts";
import { claims, pools, triggers, workloads } from "../../../crds/kinds.ts";
import { claimLabels } from "../../../crds/labels.ts";
import { openStore } from "../../../crds/snapshots/open-store.ts";
import type { ApiTypes } from "../../../edge/api/openapi/schemas.ts";
import { loadConfig } from "../../../edge/config.ts";
import { type Edge, startEdge } from "../../../edge/edge.ts";
import { serveNode } from "../../../edge/serve/node.ts";
import { eventually } from "../../eventually.ts";
import { silentLog } from "../../unit/silent-log.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { createWatchGate } from "../watch-gate.ts";

const test = suite("a list of one replica and the stream of another are joined without a gap");
let tenancy: Tenancy;
/** The list comes from here. */
let lister: Edge;
/** The stream comes from here. */
let teller: Edge;
const [listGate, tellGate] = [createWatchGate(), createWatchGate()];

test.before(async () => {
  tenancy = await startTenancy("rest-join", { nodes: false });
  const config = loadConfig({
    TENANCY_LISTEN: "127.0.0.1:0",
    TENANCY_EDGE_METRICS_LISTEN: "off",
    TENANCY_EDGE_ROLES: "api",
  });
  const cluster = await loadClusterConfig({ kubeconfigPath: tenancy.cluster.kubeconfigPath });
  const { client } = tenancy;
  const exec = createExec({ config: cluster });
  const store = () => openStore(config.store, { client, cluster, namespace: config.namespace });
  const start = (gate: typeof listGate) =>
    startEdge({ config, client: gate.wrap(client), exec, serve: serveNode, store, log: silentLog, claimWaitMs: 5000 });
  await tenancy.createWorkload("app");
  await make("first");
  [lister, teller] = await Promise.all([start(listGate), start(tellGate)]);
  await Promise.all([lister.synced, teller.synced]);
});

test.after(async () => {
  for (const gate of [listGate, tellGate]) gate.letGo();
  await Promise.all([lister?.stop({ graceMs: 0 }), teller?.stop({ graceMs: 0 })]);
  await tenancy?.stop();
});

async function make(tenantId: string): Promise<void> {
  await tenancy.createClaim(tenantId, "app", { labels: claimLabels({ tenantId, workloadRef: "app" }) });
}

async function drop(tenantId: string): Promise<void> {
  await tenancy.client.delete(claims, { namespace: NAMESPACE, name: `claim-${tenantId}-app` });
}

/** A socket of the teller, and its answer to a ping. */
async function open(query = "") {
  const socket = new WebSocket(`${teller.url.replace("http", "ws")}/ws${query}`);
  const messages: { id: string; type: string; object?: { tenantId?: string; name?: string } }[] = [];
  socket.on("message", (data) => messages.push(JSON.parse(String(data))));
  await new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject));
  socket.send("ping");
  await eventually(() => messages.length > 0);
  const pong = messages.shift() as ApiTypes["Pong"];
  assert.is(pong.type, "pong");
  return { pong, messages, socket };
}

/** The lister's claims, and whether a reader may put them before what the teller tells after the pong. */
async function list({ versions }: ApiTypes["Pong"]): Promise<{ tenants: string[]; isTaken: boolean }> {
  const response = await fetch(`${lister.url}/api/v1/tenants`);
  const version = response.headers.get("x-tenancy-version") ?? "";
  const tenants = ((await response.json()) as ApiTypes["Tenant"][]).map(({ tenantId }) => tenantId);
  return { tenants, isTaken: (compareResourceVersions(version, versions.claims ?? "") ?? -1) >= 0 };
}

test("a list that is older than the stream's past is told from one that is not", async () => {
  listGate.hold("tenancyclaims");
  await drop("first");
  await make("second");
  await eventually(async () => (await fetchTenants(teller)).join() === "second");
  const { pong, messages, socket } = await open();
  assert.is(pong.fresh, true);
  // The ghost: whoever took this would show a tenant that is gone, and nothing would ever tell that it is.
  assert.equal(await list(pong), { tenants: ["first"], isTaken: false });
  listGate.letGo();
  await eventually(async () => (await list(pong)).isTaken);
  assert.equal(await list(pong), { tenants: ["second"], isTaken: true });
  assert.equal(messages, []);
  await make("third");
  await eventually(() => messages.some(({ object }) => object?.tenantId === "third"));
  socket.close();
});

test("what the teller wrote itself and told before its watch showed it is part of the past", async () => {
  for (const gate of [listGate, tellGate]) gate.hold("tenancyclaims");
  const early = await open();
  // No operator answers the claim. The limit of the call covers its write too, so it has more time than that takes.
  const claim = fetch(`${teller.url}/api/v1/tenants/fourth/claim`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ workload: "app" }),
  });
  await eventually(() =>
    early.messages.some(({ type, object }) => `${type} ${object?.tenantId}` === "claim.pending fourth"),
  );
  const { pong, messages, socket } = await open();
  assert.equal(await list(pong), { tenants: ["second", "third"], isTaken: false });
  for (const gate of [listGate, tellGate]) gate.letGo();
  await eventually(async () => (await list(pong)).isTaken);
  assert.equal((await list(pong)).tenants, ["fourth", "second", "third"]);
  // The watch brought it to the teller too, to whom it was no news.
  await make("fifth");
  await eventually(() => messages.length > 0);
  assert.is(messages[0]?.object?.tenantId, "fifth");
  assert.is((await claim).status, 504);
  for (const one of [early.socket, socket]) one.close();
});

test("workloads, pools and triggers are told to those who name them, without their specs", async () => {
  const usual = await open();
  const { pong, messages, socket } = await open("?type=workload,pool,trigger");
  assert.equal(Object.keys(pong.versions).sort(), ["claims", "instances", "pools", "triggers", "workloads"]);
  const metadata = { name: "x", namespace: NAMESPACE };
  const secret = "s3cret";
  await tenancy.client.create(workloads, {
    metadata,
    spec: { image: { ref: "a:1" }, entrypoint: { env: { TOKEN: secret } } },
  });
  await tenancy.client.create(pools, { metadata, spec: { workloadRef: "x", size: 2 } });
  await tenancy.client.create(triggers, {
    metadata,
    spec: { type: "cron", workloadRef: "x", tenant: { static: "a" }, config: { schedule: "0 0 1 1 *" } },
  });
  for (const kind of [workloads, pools, triggers]) {
    const body = { metadata: { annotations: { "example.com/a": "b" } } };
    await tenancy.client.patch<never>(kind as never, metadata, { type: "merge", body });
    await tenancy.client.delete<never>(kind as never, metadata);
  }
  await eventually(() => messages.filter(({ type }) => type.endsWith(".deleted")).length === 3);
  // What nobody is shown is not told: the patches of the annotations.
  assert.equal(
    messages.map(({ type }) => type).sort(),
    ["workload", "pool", "trigger"].flatMap((family) => [`${family}.added`, `${family}.deleted`]).sort(),
  );
  assert.not.ok(JSON.stringify(messages).includes(secret));
  for (const { type, object = {} } of messages) {
    const { createdAt, ...shown } = object as { createdAt?: string };
    assert.type(createdAt, "string");
    if (type === "pool.added")
      assert.equal(shown, {
        ...{ name: "x", generation: 1, workloadRef: "x", size: 2, phase: "Filling", ready: 0, warming: 0 },
      });
    if (type === "workload.added") assert.equal(shown, { name: "x", generation: 1, phase: "Creating" });
    if (type === "trigger.added") assert.equal(shown, { name: "x", generation: 1, type: "cron", workloadRef: "x" });
  }
  assert.equal(usual.messages, []);
  for (const one of [usual.socket, socket]) one.close();
});

async function fetchTenants({ url }: Edge): Promise<string[]> {
  const answer = (await (await fetch(`${url}/api/v1/tenants`)).json()) as ApiTypes["Tenant"][];
  return answer.map(({ tenantId }) => tenantId);
}

test.run();
