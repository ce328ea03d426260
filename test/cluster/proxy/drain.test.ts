// @waits
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { triggers } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { IN_FLIGHT_PREFIX } from "../../../crds/labels.ts";
import { serveNode } from "../../../edge/serve/node.ts";
import type { Server } from "../../../edge/serve/serve.ts";
import { eventually } from "../../eventually.ts";
import { type EdgeProcess, startReadyEdge } from "../../unit/edge/edge-process.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { askAt, type NamedPods, POD_NETWORK, startNamedPods } from "./named-pods.ts";
import { startDoor } from "./start-door.ts";

const test = suite("a release and the requests and events that are in flight at several replicas");

const KEY = "drain-key";
let tenancy: Tenancy;
let named: NamedPods;
let doors: [EdgeProcess, EdgeProcess];
/** A replica without a front door. */
let gateway: EdgeProcess;
/** Ends the requests that are held, by the tenants whose they are. */
const held = new Map<string, () => void>();

test.before(async () => {
  named = await startNamedPods(() => tenancy.client);
  named.onRequest = (tenant, request, response) => {
    if (request.url === "/held") held.set(tenant, () => response.end(tenant));
    else response.end(tenant);
  };
  tenancy = await startTenancy("drain", { nodes: { podNetwork: POD_NETWORK } });
  tenancy.pods.subscribe(named.onPod);
  tenancy.startOperator();
  await tenancy.createWorkload("app", { network: { ports: [named.port], expose: "key" } });
  const env = {
    KUBECONFIG: tenancy.cluster.kubeconfigPath,
    TENANCY_API_KEY: KEY,
    TENANCY_EDGE_ROLES: "api,proxy",
  };
  doors = [
    await startReadyEdge("bun", { ...env, TENANCY_EDGE_ROLES: "api,gateway,proxy" }),
    await startReadyEdge("bun", env),
  ];
  await tenancy.client.create(triggers, {
    metadata: { name: "hook", namespace: NAMESPACE },
    spec: {
      ...{ type: "webhook", workloadRef: "app", tenant: { from: "who" } },
      ...{ config: { path: "/hooks/app" }, driverOptions: { path: "/held" } },
    },
  });
  gateway = await startReadyEdge("bun", { ...env, TENANCY_EDGE_ROLES: "gateway" });
});

test.after(async () => {
  for (const edge of [...(doors ?? []), gateway]) {
    edge?.child.kill("SIGTERM");
    await edge?.exited;
  }
  await tenancy?.stop();
  await named?.stop();
});

const ask = (door: EdgeProcess, tenant: string, path = "/") =>
  askAt(door.proxyUrl, `app--${tenant}.localhost`, { path, headers: { "x-tenancy-key": KEY } });

async function sendEvent({ url }: EdgeProcess, who: string): Promise<{ status: number; text: string }> {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(`${url}/hooks/app`, { method: "POST", headers, body: JSON.stringify({ who }) });
  return { status: answer.status, text: await answer.text() };
}

async function release(door: EdgeProcess, tenant: string): Promise<number> {
  const { status } = await fetch(`${door.url}/api/v1/tenants/${tenant}/release?wait=true`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${KEY}` },
    body: JSON.stringify({ workload: "app" }),
  });
  return status;
}

async function podOf(tenant: string): Promise<Pod> {
  const { status } = await tenancy.untilClaim(`claim-${tenant}-app`, { phase: "Active" });
  return tenancy.client.get(pods, { namespace: NAMESPACE, name: status?.instanceId ?? "" });
}

const marksOf = ({ metadata }: Pod): string[] =>
  Object.keys(metadata.annotations ?? {}).filter((name) => name.startsWith(IN_FLIGHT_PREFIX));

const phaseOf = (tenant: string) => tenancy.claims.store.get(`${NAMESPACE}/claim-${tenant}-app`)?.status?.phase;

test("waits for a request at the other replica, and deletes the pod when that has ended", async () => {
  assert.is((await ask(doors[1], "ann")).status, 200);
  const request = ask(doors[0], "ann", "/held");
  await eventually(() => held.has("ann"));
  await eventually(async () => marksOf(await podOf("ann")).length === 2);
  const { metadata } = await podOf("ann");
  const seen: string[] = [];
  const ends = tenancy.pods.subscribe(({ type, object }) => {
    if (object.metadata.uid === metadata.uid) seen.push(`${type} ${marksOf(object).length}`);
  });
  const released = release(doors[1], "ann");
  await eventually(() => phaseOf("ann") === "Releasing");
  // The replica without a request takes its word back at once.
  await eventually(() => seen.at(-1) === "modified 1");
  held.get("ann")?.();
  const { status, text } = await request;
  assert.equal([status, text], [200, "ann"]);
  assert.is(await released, 200);
  ends();
  assert.ok(seen.includes("modified 0"), `the pod went while a request was in flight: ${seen}`);
});

test("waits for an event that the pod handles, and takes the replica's word back when that has ended", async () => {
  for (const [tenant, replica] of [
    ["dan", doors[0]],
    ["eve", gateway],
  ] as const) {
    // A new path is known to each replica by its own watch.
    await eventually(async () => (await fetch(`${replica.url}/hooks/app`)).status === 405);
    const event = sendEvent(replica, tenant);
    await eventually(() => held.has(tenant));
    await eventually(async () => marksOf(await podOf(tenant)).length === 1);
    const { metadata } = await podOf(tenant);
    const seen: string[] = [];
    const ends = tenancy.pods.subscribe(({ type, object }) => {
      if (object.metadata.uid === metadata.uid) seen.push(`${type} ${marksOf(object).length}`);
    });
    const released = release(doors[1], tenant);
    await eventually(() => phaseOf(tenant) === "Releasing");
    held.get(tenant)?.();
    assert.equal(await event, { status: 200, text: tenant });
    assert.is(await released, 200);
    ends();
    assert.ok(seen.includes("modified 0"), `the pod went while an event was in flight: ${seen}`);
  }
});

test("a request or an event that does not end is ended, and the release goes on", async () => {
  const request = ask(doors[0], "ben", "/held");
  const event = sendEvent(gateway, "fay");
  for (const tenant of ["ben", "fay"]) {
    await eventually(() => held.has(tenant));
    await eventually(async () => marksOf(await podOf(tenant)).length === 1);
  }
  assert.equal(await Promise.all([release(doors[1], "ben"), release(doors[1], "fay")]), [200, 200]);
  assert.equal([(await request).status, (await event).status], [503, 502]);
});

test("a replica that was killed holds a release no longer than it said, or 15 s", async () => {
  const request = ask(doors[0], "cem", "/held");
  request.catch(() => undefined); // It ends with its replica.
  await eventually(() => held.has("cem"));
  await eventually(async () => marksOf(await podOf("cem")).length === 1);
  doors[0].child.kill("SIGKILL");
  await doors[0].exited;
  assert.is(await release(doors[1], "cem"), 200);
  assert.is((await ask(doors[1], "cem")).text, "cem");
});

test("an edge is not ready before its front door listens", async () => {
  const servers: Server[] = [];
  const ready = async () => (await fetch(`${servers[1]?.url}/readyz`)).status;
  const { kubeconfigPath } = tenancy.cluster;
  const started = await startDoor({
    ...{ kubeconfigPath, apiKey: KEY },
    async serve(options) {
      servers.push(await serveNode(options));
      const [api, probes] = servers as [Server, Server?];
      if (probes === undefined) return api;
      // What else readiness takes is there.
      const headers = { authorization: `Bearer ${KEY}` };
      await eventually(async () => (await fetch(`${api.url}/api/v1/claims`, { headers })).status === 200);
      assert.is(await ready(), 503);
      return probes;
    },
  });
  try {
    await eventually(async () => (await ready()) === 200);
  } finally {
    await started.stop();
  }
});

test.run();
