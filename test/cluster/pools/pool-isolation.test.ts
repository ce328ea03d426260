import { suite } from "uvu";
import * as assert from "uvu/assert";
import { workloads } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import { PROXY_CONTAINER } from "../../../operator/egress/layout.ts";
import { heldBack } from "../held-back.ts";
import { type RestEdge, startRestEdge } from "../rest/rest-edge.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("pool isolation");
const image = { ref: "simulated/hello:1" };
const fence = { access: "restricted", allowlist: ["a.example"] };
let tenancy: Tenancy;
let operator: RunningOperator;
let edge: RestEdge;

test.before(async () => {
  tenancy = await startTenancy("test-pool-isolation");
  operator = tenancy.startOperator({
    config: { egress: { image: "simulated/proxy:1", openedRanges: [], extraAuthorities: "" } },
    // What the operator knows of a workload is always older than what the API server has.
    wrap: (client) => heldBack(client, "tenancyworkloads"),
  });
  edge = await startRestEdge("bun", {
    KUBECONFIG: tenancy.cluster.kubeconfigPath,
    TENANCY_NAMESPACE: NAMESPACE,
    TENANCY_EDGE_ROLES: "api",
  });
});
test.after(async () => {
  await edge?.stop();
  await operator?.stop();
  await tenancy?.stop();
});

const hasProxy = ({ spec }: Pod) => spec.containers.some(({ name }) => name === PROXY_CONTAINER);

async function fillPool(name: string, spec: object): Promise<void> {
  const created = await edge.call("POST /api/v1/workloads", { body: { name, spec } });
  assert.is(created.status, 201, created.text);
  await tenancy.createPool(name, { workloadRef: name, size: 3 });
  await tenancy.until(`3 ready in ${name}`, () => tenancy.members(name, "ready").length === 3);
}

async function change(name: string, spec: object): Promise<void> {
  const path = `/api/v1/workloads/${name}`;
  const changed = await edge.call("PUT /api/v1/workloads/{name}", { path, body: { spec } });
  assert.is(changed.status, 200, changed.text);
}

/** Claims, and returns the pod that the answer names. */
async function claim(tenant: string, workload: string): Promise<Pod> {
  const path = `/api/v1/tenants/${tenant}/claim`;
  const answer = await edge.call("POST /api/v1/tenants/{id}/claim", { path, body: { workload } });
  assert.is(answer.status, 201, answer.text);
  const { instanceId } = answer.json as { instanceId: string };
  return tenancy.until(`pod ${instanceId}`, () => tenancy.pods.store.get(`${NAMESPACE}/${instanceId}`));
}

test("a claim right after an allowlist was added gets a pod with the proxy, and the pods without it go", async () => {
  await fillPool("walled", { image });
  const old = tenancy.members("walled").map(({ metadata }) => metadata.name);
  await change("walled", { image, network: fence });
  assert.ok(hasProxy(await claim("alice", "walled")));
  await tenancy.until("no pod without the proxy", () =>
    tenancy.members("walled").every(({ metadata }) => !old.includes(metadata.name)),
  );
  await tenancy.until("3 ready", () => tenancy.members("walled", "ready").length === 3);
  assert.ok(tenancy.members("walled").every(hasProxy));
});

test("a claim that says nothing of its workload, as one by kubectl, gets such a pod too", async () => {
  await fillPool("by-hand", { image });
  const body = { spec: { network: fence } };
  await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "by-hand" }, { type: "merge", body });
  const { metadata } = await tenancy.createClaim("bob", "by-hand");
  const active = await tenancy.untilClaim(metadata.name, { phase: "Active" });
  const pods = await tenancy.podsOf(active);
  // A cold pod that a warm one overtook may still be going.
  assert.ok(pods.some((pod) => pod.metadata.name === active.status?.instanceId));
  assert.ok(pods.every(hasProxy));
});

test("a claim right after credentials were added gets a pod that mounts what they need", async () => {
  await fillPool("given", { image, network: fence });
  const valueFrom = { secretKeyRef: { name: "vault", key: "token" } };
  const credentials = [{ domain: "api.example", headers: [{ name: "Authorization", valueFrom }] }];
  await change("given", { image, network: { ...fence, credentials } });
  const { spec } = await claim("carol", "given");
  const sources = (spec.volumes ?? []).flatMap(({ projected }) => projected?.sources ?? []);
  assert.ok(sources.some(({ secret }) => secret?.name === "vault"));
});

test("a claim right after overlay directories were added gets a pod that keeps them", async () => {
  await fillPool("kept", { image });
  await change("kept", { image, filesystem: { overlayDirs: ["/data"] } });
  const { metadata, spec } = await claim("erin", "kept");
  assert.is(metadata.annotations?.[annotation.overlayDirs], '["/data"]');
  assert.ok(spec.containers.some(({ volumeMounts }) => volumeMounts?.some(({ mountPath }) => mountPath === "/data")));
});

test("a warm pod goes by what the workload says of idleness when it is claimed", async () => {
  await fillPool("idle", { image, idle: { timeoutSeconds: 7200, action: "destroy" } });
  for (const [tenant, idle, expected] of [
    ["frank", { timeoutSeconds: 3600, countBackgroundProcesses: true }, ["hibernate", "3600", "true"]],
    ["grace", {}, ["hibernate", undefined, undefined]],
  ] as const) {
    await change("idle", { image, idle });
    const { annotations = {} } = (await claim(tenant, "idle")).metadata;
    assert.is(annotations[annotation.source], "pool");
    const { idleAction, idleTimeoutSeconds, countBackground } = annotation;
    assert.equal([annotations[idleAction], annotations[idleTimeoutSeconds], annotations[countBackground]], expected);
  }
});

test("a change that leaves the isolation as it is leaves claims the warm pods of the template before", async () => {
  await fillPool("plain", { image });
  await change("plain", { image, entrypoint: { env: { VERSION: "2" } } });
  const pod = await claim("dave", "plain");
  assert.is(pod.metadata.annotations?.[annotation.source], "pool");
});

test.run();
