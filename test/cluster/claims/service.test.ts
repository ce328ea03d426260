import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods, services } from "../../../crds/client/built-in-resources.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { Pod, Service } from "../../../crds/kubernetes.ts";
import { exists, NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("Services of claims");
let tenancy: Tenancy;
let operator: RunningOperator;

test.before(async () => {
  tenancy = await startTenancy("test-services");
  operator = tenancy.startOperator();
});
test.after(() => tenancy?.stop());

const asked = { service: true, network: { ports: [8080, 9000] } };

function serviceOf(name: string): Promise<Service | undefined> {
  return tenancy.client.get(services, { namespace: NAMESPACE, name }).catch(() => undefined);
}

/** The pods that a Service leads to, as the API server selects them. */
async function selectedBy({ spec }: Service): Promise<Pod[]> {
  const terms = Object.entries(spec.selector ?? {}).map(([key, value]) => `${key}=${value}`);
  assert.ok(terms.length > 0, "a Service that selects everything");
  const { items } = await tenancy.client.list(pods, { namespace: NAMESPACE, labelSelector: terms.join(",") });
  return items;
}

/** Waits until the Service leads to the pod that its claim shows, and to no other. */
function untilLeadsTo(name: string, podName: string): Promise<Service> {
  return tenancy.until(`Service ${name} leading to ${podName}`, async () => {
    const service = await serviceOf(name);
    if (service === undefined) return undefined;
    const names = (await selectedBy(service)).map(({ metadata }) => metadata.name);
    assert.ok(names.length <= 1, `${name} selects ${names.join(", ")}`);
    return names[0] === podName && service;
  });
}

async function active(tenant: string, workload: string): Promise<{ name: string; pod: string }> {
  const { metadata } = await tenancy.createClaim(tenant, workload);
  const { status } = await tenancy.untilClaim(metadata.name, { phase: "Active" });
  return { name: metadata.name, pod: status?.instanceId ?? "" };
}

async function setService(workload: string, service: boolean): Promise<void> {
  await tenancy.client.patch(
    workloads,
    { namespace: NAMESPACE, name: workload },
    { type: "merge", body: { spec: { service } } },
  );
}

test("nothing is asked or watched of Services where no workload wants one", async () => {
  await tenancy.createWorkload("plain");
  await tenancy.createPool("plain", { workloadRef: "plain", size: 1 });
  await tenancy.until("a warm pod", () => tenancy.members("plain", "ready").length > 0);
  await active("alice", "plain");
  await active("bob", "plain");
  assert.ok(operator.requests.some(({ resource }) => resource.startsWith("pods")));
  assert.equal(
    operator.requests.filter(({ resource }) => resource.startsWith("services")),
    [],
  );
});

test("each claim has one of its own name, which leads to its own pod, warm or cold, and to no other", async () => {
  await tenancy.createWorkload("app", asked);
  await tenancy.createPool("app", { workloadRef: "app", size: 1 });
  await tenancy.until("a warm pod", () => tenancy.members("app", "ready").length > 0);
  const claimed = await Promise.all(["alice", "bob", "carol"].map((tenant) => active(tenant, "app")));
  const addresses = new Set<string>();
  for (const { name, pod } of claimed) {
    const { spec, metadata } = await untilLeadsTo(name, pod);
    assert.is(spec.type, "ClusterIP");
    addresses.add(spec.clusterIP ?? "");
    assert.equal(
      spec.ports?.map(({ port, targetPort }) => [port, targetPort]),
      [
        [8080, 8080],
        [9000, 9000],
      ],
    );
    const claim = tenancy.claims.store.get(`${NAMESPACE}/${name}`);
    assert.equal(
      metadata.ownerReferences?.map(({ kind, uid }) => [kind, uid]),
      [["TenancyClaim", claim?.metadata.uid]],
    );
  }
  assert.is(addresses.size, 3);
  assert.not(addresses.has("None"));
});

test("it follows its claim to another pod, and leads nowhere before that is Active", async () => {
  await tenancy.createWorkload("lost", asked);
  const { name, pod } = await active("alice", "lost");
  await untilLeadsTo(name, pod);
  await tenancy.client.patch(
    workloads,
    { namespace: NAMESPACE, name: "lost" },
    {
      type: "merge",
      body: { spec: { image: { ref: "simulated/never-ready:1" } } },
    },
  );
  await tenancy.client.delete(pods, { namespace: NAMESPACE, name: pod }, { gracePeriodSeconds: 0 });
  const claim = await tenancy.untilClaim(name, { phase: "Pending" });
  const [next] = await tenancy.until("the next pod", async () => {
    const bound = (await tenancy.podsOf(claim)).filter(({ metadata }) => metadata.name !== pod);
    return bound.length > 0 && bound;
  });
  const between = await serviceOf(name);
  assert.ok(between);
  assert.equal(await selectedBy(between), []);
  const body = { metadata: { annotations: { "simulated.tenancy.dev/behaviour": "normal" } } };
  await tenancy.client.patch(pods, { namespace: NAMESPACE, name: next?.metadata.name ?? "" }, { type: "merge", body });
  await tenancy.untilClaim(name, { phase: "Active" });
  await untilLeadsTo(name, next?.metadata.name ?? "");
});

test("one that is edited or deleted by hand comes back, and goes when the workload wants none", async () => {
  await tenancy.createWorkload("healed", asked);
  const { name, pod } = await active("alice", "healed");
  await untilLeadsTo(name, pod);
  const bob = await active("bob", "healed");
  const body = { spec: { selector: { "tenancy.dev/tenant": "bob", "tenancy.dev/binding": null, mine: "yes" } } };
  await tenancy.client.patch(services, { namespace: NAMESPACE, name }, { type: "merge", body });
  await tenancy.until("the selector as it was", async () => (await serviceOf(name))?.spec.selector?.mine === undefined);
  await untilLeadsTo(name, pod);
  await tenancy.client.delete(services, { namespace: NAMESPACE, name });
  await untilLeadsTo(name, pod);
  await setService("healed", false);
  for (const one of [name, bob.name])
    await tenancy.until("no Service", async () => !(await exists(tenancy.client, services, one)));
  await setService("healed", true);
  await untilLeadsTo(name, pod);
});

test("one that a claim of before left is made anew for the next of its name", async () => {
  await tenancy.createWorkload("again", asked);
  const first = await active("alice", "again");
  const left = await untilLeadsTo(first.name, first.pod);
  await tenancy.release(first.name);
  // There is no garbage collector here.
  assert.equal(await selectedBy(left), []);
  const second = await active("alice", "again");
  assert.is(second.name, first.name);
  const made = await untilLeadsTo(second.name, second.pod);
  assert.is.not(made.metadata.uid, left.metadata.uid);
});

test("a Service of somebody else is left alone, and an Event says so", async () => {
  const name = "claim-alice-taken";
  const foreign = await tenancy.client.create(services, {
    metadata: { name, namespace: NAMESPACE },
    spec: { selector: { app: "foreign" }, ports: [{ port: 80 }] },
  });
  await tenancy.createWorkload("taken", asked);
  const claimed = await active("alice", "taken");
  assert.is(claimed.name, name);
  await tenancy.until("the Event", async () => {
    return (await tenancy.eventsOf(name)).some(({ reason }) => reason === "ServiceFailed");
  });
  assert.is((await serviceOf(name))?.metadata.resourceVersion, foreign.metadata.resourceVersion);
});

test("a claim whose name no Service can have gets one that is found by its labels", async () => {
  await tenancy.createWorkload("py3.11", asked);
  const { pod } = await active("Alice.Smith", "py3.11");
  await tenancy.until("the Service", async () => {
    const labelSelector = "tenancy.dev/tenant=Alice.Smith,tenancy.dev/workload=py3.11";
    const { items } = await tenancy.client.list(services, { namespace: NAMESPACE, labelSelector });
    if (items[0] === undefined) return false;
    return (await selectedBy(items[0])).map(({ metadata }) => metadata.name).join() === pod;
  });
});

test("a new leader finds what is there, and changes nothing", async () => {
  const { items: before } = await tenancy.client.list(services, { namespace: NAMESPACE });
  await operator.stop();
  operator = tenancy.startOperator();
  await setService("plain", true);
  await tenancy.until("the new leader's Service", () => exists(tenancy.client, services, "claim-alice-plain"));
  for (const { metadata } of before)
    assert.is((await serviceOf(metadata.name))?.metadata.resourceVersion, metadata.resourceVersion, metadata.name);
});

test.run();
