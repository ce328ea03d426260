// @limit 300
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { annotation } from "../../../crds/labels.ts";
import { eventually } from "../../eventually.ts";
import { exists, NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { type RestEdge, startRestEdge } from "./rest-edge.ts";

const test = suite("destroy and activity on a real API server");
let tenancy: Tenancy;
let edge: RestEdge;

test.before(async () => {
  tenancy = await startTenancy("rest-destroy");
  tenancy.startOperator();
  await tenancy.createWorkload("app", { idle: { timeoutSeconds: 10 } });
  await tenancy.createWorkload("calm");
  edge = await startRestEdge("bun", { KUBECONFIG: tenancy.cluster.kubeconfigPath });
});

async function claim(tenant: string, workload = "app"): Promise<string> {
  const path = `/api/v1/tenants/${tenant}/claim`;
  const { status, json, text } = await edge.call("POST /api/v1/tenants/{id}/claim", { path, body: { workload } });
  assert.is(status, 201, text);
  return (json as { instanceId: string }).instanceId;
}

test("destroy removes the pod, and the claim stays Active without another and without an address", async () => {
  const instance = await claim("dora", "calm");
  const path = `/api/v1/instances/${instance}/destroy`;
  const { status, json } = await edge.call("POST /api/v1/instances/{id}/destroy", { path });
  assert.is(status, 200);
  assert.equal(json, { status: "destroyed", instance });
  assert.not.ok(await exists(tenancy.client, pods, instance));
  const marked = await tenancy.untilClaim(
    "claim-dora-calm",
    (found) => found?.metadata.annotations?.[annotation.destroyed] === instance,
  );
  assert.is(marked.status?.phase, "Active");
  // What the operator does for another claim after that shows that it is done with this one.
  await claim("after", "calm");
  assert.is((await tenancy.podsOf(marked)).length, 0);
  const shown = (await edge.call("GET /api/v1/tenants/{id}", { path: "/api/v1/tenants/dora" })).json;
  assert.equal(
    (shown as { claims: { phase: string; endpoint?: object }[] }).claims.map((claim) => [claim.phase, claim.endpoint]),
    [["Active", undefined]],
  );
  assert.equal(tenancy.phases.get("claim-dora-calm")?.at(-1), "Active");
  assert.is((await edge.call("POST /api/v1/instances/{id}/destroy", { path })).status, 404);
  const release = { path: "/api/v1/tenants/dora/release?wait=true", body: { workload: "calm" } };
  assert.is((await edge.call("POST /api/v1/tenants/{id}/release", release)).status, 200);
});

test("a claim that is used stays, and is released once nobody uses it", async () => {
  const instance = await claim("ivy");
  const from = Date.now();
  const readLastActivity = async (): Promise<number> => {
    const { metadata } = await tenancy.client.get(pods, { namespace: NAMESPACE, name: instance });
    return Date.parse(metadata.annotations?.[annotation.lastActivity] ?? "");
  };
  let count = 0;
  // Used until after the end of its first idle time.
  await tenancy.until("a use after its idle time", async () => {
    if (count % 2 === 0) assert.is(await claim("ivy"), instance);
    else await edge.call("POST /api/v1/instances/{id}/activity", { path: `/api/v1/instances/${instance}/activity` });
    count += 1;
    return (await readLastActivity()) > from + 11_000;
  });
  const lastActivity = await readLastActivity();
  const deleted = await tenancy.untilClaim("claim-ivy-app", (found) => found?.metadata.deletionTimestamp !== undefined);
  await eventually(() => tenancy.phases.get("claim-ivy-app")?.at(-1) === "(gone)");
  // The API server's deletion time is in whole seconds.
  const idleMs = Date.parse(deleted.metadata.deletionTimestamp ?? "") - lastActivity;
  console.log(`note: a claim with 10 s of idle time was released ${(idleMs / 1000).toFixed(1)} s after its last use`);
  assert.ok(idleMs > 9000, `${idleMs} ms`);
});

test("a thousand uses of one pod cost few writes, and none of a pod that is never idle", async () => {
  const busy = await claim("eve");
  const calm = await claim("eve", "calm");
  const versionOf = async (name: string) =>
    (await tenancy.client.get(pods, { namespace: NAMESPACE, name })).metadata.resourceVersion;
  const before = await versionOf(calm);
  const seen = () => tenancy.pods.store.get(`${NAMESPACE}/${busy}`)?.metadata.resourceVersion;
  await tenancy.until("the pod as it is", async () => seen() === (await versionOf(busy)));
  const writes = new Set<string | undefined>();
  const ended = tenancy.onPodChange(() => writes.add(seen()));
  const from = Date.now();
  for (let count = 0; count < 500; count += 1) {
    await claim("eve");
    await claim("eve", "calm");
  }
  const seconds = (Date.now() - from) / 1000;
  ended();
  console.log(`note: 500 existing claims of one pod in ${seconds.toFixed(1)} s made ${writes.size} writes of it`);
  assert.ok(writes.size <= seconds + 2, `${writes.size} writes in ${seconds} s`);
  assert.is(await versionOf(calm), before);
  assert.ok(await exists(tenancy.client, pods, busy));
});

test.after(async () => {
  await edge?.stop();
  await tenancy?.stop();
});

test.run();
