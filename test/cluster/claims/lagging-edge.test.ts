import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import type { ClaimResponse } from "../../../crds/claims/claim-response.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createExec } from "../../../crds/client/exec/exec.ts";
import { claims } from "../../../crds/kinds.ts";
import { claimName } from "../../../crds/names.ts";
import { openStore } from "../../../crds/snapshots/open-store.ts";
import { loadConfig } from "../../../edge/config.ts";
import { type Edge, startEdge } from "../../../edge/edge.ts";
import { serveNode } from "../../../edge/serve/node.ts";
import { silentLog } from "../../unit/silent-log.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";
import { createWatchGate } from "../watch-gate.ts";

const test = suite("a replica of the edge whose watch of claims is behind what others did");
const gate = createWatchGate();
let tenancy: Tenancy;
let operator: RunningOperator;
let edge: Edge;

test.before(async () => {
  tenancy = await startTenancy("lagging-edge");
  operator = tenancy.startOperator();
  await tenancy.createWorkload("app");
  const config = loadConfig({
    TENANCY_LISTEN: "127.0.0.1:0",
    TENANCY_EDGE_METRICS_LISTEN: "127.0.0.1:0",
    TENANCY_EDGE_ROLES: "api",
  });
  const cluster = await loadClusterConfig({ kubeconfigPath: tenancy.cluster.kubeconfigPath });
  const { client } = tenancy;
  const exec = createExec({ config: cluster });
  const store = () => openStore(config.store, { client, cluster, namespace: config.namespace });
  edge = await startEdge({ config, client: gate.wrap(client), exec, serve: serveNode, store, log: silentLog });
  await edge.synced;
});
test.after.each(() => gate.letGo());
test.after(async () => {
  await edge?.stop({ graceMs: 0 });
  await tenancy?.stop();
});

test("it gives nobody the pod of a claim whose release has begun, but the next one", async () => {
  const first = await claim("alice");
  assert.is((await claim("alice")).instanceId, first.instanceId);
  gate.hold("tenancyclaims");
  // Without an operator the pod stays as it is.
  await operator.stop();
  await tenancy.deleteClaim(nameOf("alice"));
  const next = claim("alice");
  const answer = await Promise.race([next, tenancy.until("the call to wait", callWaits)]);
  assert.is(answer, true, "it was answered while the claim was being released");
  operator = tenancy.startOperator();
  await tenancy.untilGone(nameOf("alice"));
  gate.letGo();
  const { instanceId, source } = await next;
  assert.is.not(instanceId, first.instanceId);
  assert.is(source, "cold");
});

test("a release ends the claim that is there, not the one that was", async () => {
  const first = await claimed("bob");
  gate.hold("tenancyclaims");
  const second = await madeAnew(first);
  assert.is((await call("POST /api/v1/tenants/bob/release", { workload: "app" })).status, 200);
  await tenancy.untilGone(second.metadata.name);
});

test("a release of the claim that is meant ends that one, which no watch has shown yet", async () => {
  const first = await claimed("carol");
  gate.hold("tenancyclaims");
  const second = await madeAnew(first);
  const release = (uid: string | undefined) => call("POST /api/v1/tenants/carol/release", { workload: "app", uid });
  assert.is((await release(first.metadata.uid)).status, 409);
  assert.is((await read(second.metadata.name)).metadata.deletionTimestamp, undefined);
  assert.is((await release(second.metadata.uid)).status, 200);
  await tenancy.untilGone(second.metadata.name);
});

async function callWaits(): Promise<boolean> {
  const metrics = await (await fetch(`${edge.metricsUrl}/metrics`)).text();
  return /^tenancy_edge_waiting_calls 1$/m.test(metrics);
}

async function claim(tenantId: string): Promise<ClaimResponse> {
  const { status, json } = await call(`POST /api/v1/tenants/${tenantId}/claim`, { workload: "app" });
  assert.is(status, 201, JSON.stringify(json));
  return json as ClaimResponse;
}

/** The claim object that a claim call made. */
async function claimed(tenantId: string): Promise<Claim> {
  await claim(tenantId);
  return read(nameOf(tenantId));
}

/** What another replica would do: releases a claim and makes it again. */
async function madeAnew(before: Claim): Promise<Claim> {
  const { name, uid } = before.metadata;
  await tenancy.deleteClaim(name);
  await tenancy.untilGone(name);
  await tenancy.createClaim(before.spec.tenantId, before.spec.workloadRef);
  await tenancy.until("the next claim Active", async () => (await read(name)).status?.phase === "Active");
  const after = await read(name);
  assert.is.not(after.metadata.uid, uid);
  return after;
}

function read(name: string): Promise<Claim> {
  return tenancy.client.get(claims, { namespace: NAMESPACE, name });
}

function nameOf(tenantId: string): string {
  return claimName({ tenantId, workloadRef: "app" });
}

async function call(target: string, body?: object): Promise<{ status: number; json: unknown }> {
  const [method = "GET", path = "/"] = target.split(" ");
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${edge.url}${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) });
  return { status: response.status, json: await response.json() };
}

test.run();
