import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { configMaps, pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { label } from "../../../crds/labels.ts";
import { claimName } from "../../../crds/names.ts";
import type { ApiTypes } from "../../../edge/api/openapi/schemas.ts";
import { patiently } from "../../e2e/claims/patiently.ts";
import { type RestEdge, startRestEdge } from "../rest/rest-edge.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("quotas of tenants on a real API server");
const NAME = { namespace: NAMESPACE, name: "tenancy-quotas" };
const WORKLOADS = 50;
const LIMIT = 7;

let tenancy: Tenancy;
let operator: RunningOperator;
let edges: [RestEdge, RestEdge];

test.before(async () => {
  tenancy = await startTenancy("test-quotas");
  operator = tenancy.startOperator();
  const env = { KUBECONFIG: tenancy.cluster.kubeconfigPath };
  edges = [await startRestEdge("bun", env), await startRestEdge("bun", env)];
  await Promise.all(Array.from({ length: WORKLOADS }, (_, at) => tenancy.createWorkload(`w${at}`)));
  await tenancy.createWorkload("large", { resources: { vcpus: 3, memoryMb: 2048 } });
});

test.after(async () => {
  for (const edge of edges ?? []) await edge.stop();
  await tenancy?.stop();
});

/** Writes the quotas, and waits until both edges show the limits of the tenant. */
async function setQuotas(quotas: object, { tenant, shows }: { tenant: string; shows: object }): Promise<void> {
  const data = { "quotas.yaml": JSON.stringify(quotas) };
  const present = (await tenancy.client.list(configMaps, { namespace: NAMESPACE })).items.some(
    ({ metadata }) => metadata.name === NAME.name,
  );
  if (present) await tenancy.client.patch(configMaps, NAME, { type: "merge", body: { data } });
  else await tenancy.client.create(configMaps, { metadata: NAME, data });
  for (const edge of edges)
    await tenancy.until(`an edge shows the limits of ${tenant}`, async () => {
      const { json } = await limits(tenant, edge);
      return JSON.stringify(limitsOf(json)) === JSON.stringify(shows);
    });
}

function limits(tenant: string, edge: RestEdge) {
  return edge.call("GET /api/v1/tenants/{id}/limits", { path: `/api/v1/tenants/${tenant}/limits` });
}

function limitsOf(json: unknown): object {
  const { limits } = json as { limits: Record<string, { limit: number }> };
  return Object.fromEntries(Object.entries(limits).map(([name, { limit }]) => [name, limit]));
}

async function claim(tenant: string, workload: string, edge = edges[0]) {
  const { status, json, text, headers } = await edge.call("POST /api/v1/tenants/{id}/claim", {
    path: `/api/v1/tenants/${tenant}/claim`,
    body: { workload },
  });
  return { status, json: json as { error?: string }, text, headers };
}

async function release(tenant: string, workload: string): Promise<void> {
  const { status, text } = await edges[0].call("POST /api/v1/tenants/{id}/release", {
    path: `/api/v1/tenants/${tenant}/release?wait=true`,
    body: { workload },
  });
  assert.is(status, 200, text);
}

/** Claims of a tenant that have a pod, by the pods themselves. */
function withPod(tenant: string): Set<string | undefined> {
  const own = [...tenancy.pods.store.values()].filter(({ metadata }) => metadata.labels?.[label.tenant] === tenant);
  return new Set(own.map(({ metadata }) => metadata.annotations?.["tenancy.dev/claim"]));
}

test("of 50 claims at once on two edges exactly as many get an instance as the limit allows", async () => {
  await setQuotas(
    { classes: { small: { activeClaims: LIMIT } }, tenants: { "crowd*": "small" } },
    { tenant: "crowd-1", shows: { activeClaims: LIMIT } },
  );
  let most = 0;
  const end = tenancy.onPodChange(() => {
    most = Math.max(most, withPod("crowd-1").size);
  });
  const answers = await Promise.all(
    Array.from({ length: WORKLOADS }, (_, at) => patiently(() => claim("crowd-1", `w${at}`, edges[at % 2]))),
  );
  const labelSelector = `${label.tenant}=crowd-1`;
  const { items } = await tenancy.client.list(pods, { namespace: NAMESPACE, labelSelector });
  await tenancy.until("the watch to show every pod", () => withPod("crowd-1").size >= items.length);
  end();
  const codes = answers.map(({ status }) => status);
  assert.is(codes.filter((code) => code === 201).length, LIMIT, JSON.stringify(codes));
  assert.is(codes.filter((code) => code === 429).length, WORKLOADS - LIMIT);
  assert.is(most, LIMIT);
  assert.is(withPod("crowd-1").size, LIMIT);
  const refused = answers.find(({ status }) => status === 429);
  assert.match(
    refused?.json.error ?? "",
    /^tenant "crowd-1" uses 7 of 7 claims with an instance \(activeClaims of class small\): release one/,
  );
  assert.is(refused?.headers.get("retry-after"), "5");
  // It learns of the claims that the other one answered by its own watch.
  const shown = await tenancy.until("the second edge to count the claims of both", async () => {
    const { json } = await limits("crowd-1", edges[1]);
    return (json as ApiTypes["TenantLimits"]).limits.activeClaims?.used === LIMIT && json;
  });
  assert.equal(shown, {
    tenantId: "crowd-1",
    class: "small",
    limits: { activeClaims: { limit: LIMIT, used: LIMIT } },
  });

  const free = answers.findIndex(({ status }) => status === 201);
  const next = answers.findIndex(({ status }) => status === 429);
  await release("crowd-1", `w${free}`);
  assert.is((await claim("crowd-1", `w${next}`)).status, 201);
  assert.is((await claim("crowd-1", `w${free}`)).status, 429);
  // The claim that the tenant has is not a new one.
  assert.is((await claim("crowd-1", `w${next}`)).status, 201);
});

test("an edge refuses a tenant without a write", async () => {
  const mine = async () =>
    (await tenancy.client.list(claims, { namespace: NAMESPACE })).items.filter(
      ({ spec }) => spec.tenantId === "crowd-1",
    );
  const versions = (all: Claim[]) => all.map(({ metadata }) => `${metadata.name} ${metadata.resourceVersion}`).sort();
  const before = versions(await mine());
  for (let at = 0; at < 10; at += 1) assert.is((await claim("crowd-1", "large", edges[at % 2])).status, 429);
  assert.equal(versions(await mine()), before);
});

test("a claim made with kubectl is refused too, by another leader as well, and claimed again gets its instance", async () => {
  await operator.stop();
  operator = tenancy.startOperator({ identity: "next" });
  await tenancy.createClaim("crowd-1", "large");
  const name = claimName({ tenantId: "crowd-1", workloadRef: "large" });
  const refused = await tenancy.untilClaim(name, { phase: "Error" });
  assert.is(refused.status?.reason, "TenantQuotaExceeded");
  assert.match(refused.status?.message ?? "", /uses 7 of 7 claims/);
  assert.is((await tenancy.podsOf(refused)).length, 0);
  await setQuotas(
    { classes: { small: { activeClaims: LIMIT + 1 } }, tenants: { "crowd*": "small" } },
    { tenant: "crowd-1", shows: { activeClaims: LIMIT + 1 } },
  );
  assert.is((await claim("crowd-1", "large")).status, 201);
});

test("vCPU and memory of all instances count together", async () => {
  await setQuotas(
    { classes: { small: { vcpus: 4 } }, default: "small", tenants: { lean: { class: "small", memoryMb: 2500 } } },
    { tenant: "lean", shows: { vcpus: 4, memoryMb: 2500 } },
  );
  assert.is((await claim("lean", "large")).status, 201);
  const memory = await claim("lean", "w0");
  assert.is(memory.status, 429);
  assert.match(
    memory.json.error ?? "",
    /uses 2048 of 2500 MB of memory \(memoryMb of class small\), and this instance takes 512/,
  );
  assert.is((await claim("other", "large")).status, 201);
  assert.is((await claim("other", "w0")).status, 201);
  const cpus = await claim("other", "w1");
  assert.match(
    cpus.json.error ?? "",
    /uses 4 of 4 vCPU \(vcpus of class small\), and this instance takes 1: release one/,
  );
  const shown = await limits("other", edges[0]);
  assert.equal(shown.json, { tenantId: "other", class: "small", limits: { vcpus: { limit: 4, used: 4 } } });
});

test("parts of a CPU count by the limits, not by lower requests, and their sum is exact", async () => {
  const resources = { requests: { milliCpus: 1, memoryMb: 1 }, memoryMb: 64 };
  for (const [name, milliCpus] of Object.entries({ tenth: 100, more: 700, least: 1 }))
    await tenancy.createWorkload(name, { resources: { ...resources, milliCpus } });
  for (const name of ["tenth-2", "tenth-3"])
    await tenancy.createWorkload(name, { resources: { ...resources, milliCpus: 100 } });
  await setQuotas({ tenants: { parted: { vcpus: 1 } } }, { tenant: "parted", shows: { vcpus: 1 } });
  for (const name of ["tenth", "tenth-2", "tenth-3", "more"]) assert.is((await claim("parted", name)).status, 201);
  const refused = await claim("parted", "least");
  assert.is(refused.status, 429);
  assert.match(refused.json.error ?? "", /uses 1 of 1 vCPU \(vcpus\), and this instance takes 0\.001/);
  await release("parted", "more");
  await tenancy.until("an edge shows what is left", async () => {
    const { json } = await limits("parted", edges[0]);
    return JSON.stringify((json as { limits: object }).limits) === '{"vcpus":{"limit":1,"used":0.3}}';
  });
  const { status } = await tenancy.untilClaim(claimName({ tenantId: "parted", workloadRef: "tenth" }), {
    phase: "Active",
  });
  assert.equal(status?.resources, { vcpus: 0.1, memoryMb: 64 });
});

test("starts count also once their claims are released", async () => {
  await setQuotas({ tenants: { hasty: { startsPerMinute: 3 } } }, { tenant: "hasty", shows: { startsPerMinute: 3 } });
  for (const workload of ["w0", "w1", "w0"]) {
    assert.is((await claim("hasty", workload)).status, 201);
    await release("hasty", workload);
  }
  const { status, json } = await claim("hasty", "w2");
  assert.is(status, 429, JSON.stringify(json));
  assert.match(json.error ?? "", /has got 3 of 3 instances in the last minute \(startsPerMinute\): try again in \d+ s/);
  // The next calls are answered by what the edge remembers, or by the operator.
  assert.is((await claim("hasty", "w2")).status, 429);
});

test("an invalid change leaves the quotas as they are", async () => {
  await tenancy.client.patch(configMaps, NAME, {
    type: "merge",
    body: { data: { "quotas.yaml": "tenants: {hasty: {startsPerMinute: -1}}" } },
  });
  const problem = await tenancy.until("an edge shows the problem", async () => {
    const { json } = await limits("hasty", edges[0]);
    return (json as { problem?: string }).problem;
  });
  assert.match(problem, /^quotas\.yaml\.tenants\.hasty\.startsPerMinute: must be a whole number from 0 .*"-1"$/);
  assert.is((await claim("hasty", "w3")).status, 429);
});

test("a new leader that has seen no valid quotas gives no instance until they are corrected", async () => {
  await operator.stop();
  operator = tenancy.startOperator({ identity: "third" });
  await tenancy.createClaim("late", "w0");
  const name = claimName({ tenantId: "late", workloadRef: "w0" });
  const waiting = await tenancy.untilClaim(name, { reason: "QuotasInvalid" });
  assert.match(waiting.status?.message ?? "", /correct ConfigMap "tenancy-quotas", or delete it/);
  await tenancy.client.delete(configMaps, NAME);
  await tenancy.untilClaim(name, { phase: "Active" });
});

test.run();
