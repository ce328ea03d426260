import { suite } from "uvu";
import * as assert from "uvu/assert";
import { networkPolicies } from "../../../crds/client/built-in-resources.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { NetworkPolicy } from "../../../crds/kubernetes.ts";
import type { Workload } from "../../../crds/workload.ts";
import { metadataRanges, partsOf } from "../../../operator/cluster/address-ranges.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("workload");
let tenancy: Tenancy;

test.before(async () => {
  tenancy = await startTenancy("test-workload");
  tenancy.startOperator();
});
test.after(() => tenancy?.stop());

const isObserved = ({ metadata, status }: Workload) => status?.observedGeneration === metadata.generation;

function policyOf(name: string): Promise<NetworkPolicy> {
  return tenancy.client.get(networkPolicies, { namespace: NAMESPACE, name: `workload-${name}` });
}

test("becomes Ready, with its network policy in place", async () => {
  await tenancy.createWorkload("hello");
  const workload = await tenancy.untilWorkload("hello", isObserved);
  assert.is(workload.status?.phase, "Ready");
  assert.is(workload.status?.conditions?.[0]?.status, "True");
  const { spec } = await policyOf("hello");
  assert.equal(spec.podSelector.matchLabels, { "tenancy.dev/managed": "true", "tenancy.dev/workload": "hello" });
  assert.equal(spec.policyTypes, ["Ingress", "Egress"]);
});

test("each network access gives its egress rules, and link-local addresses are open in none", async () => {
  for (const access of ["none", "restricted", "unrestricted"] as const) {
    await tenancy.createWorkload(`net-${access}`, { network: { access } });
    await tenancy.untilWorkload(`net-${access}`, ({ status }) => status?.phase === "Ready");
  }
  assert.is((await policyOf("net-none")).spec.egress, undefined);
  const restricted = (await policyOf("net-restricted")).spec.egress ?? [];
  assert.equal(
    restricted.map(({ ports }) => ports?.map(({ protocol, port }) => `${protocol} ${port}`)),
    [["UDP 53", "TCP 53"], ["TCP 443"]],
  );
  const blocks = [...restricted, ...((await policyOf("net-unrestricted")).spec.egress ?? [])].flatMap(
    ({ to }) => to ?? [],
  );
  for (const { ipBlock } of blocks) {
    if (ipBlock?.cidr === "0.0.0.0/0") assert.equal(ipBlock.except, partsOf("0.0.0.0/0", metadataRanges));
    if (ipBlock?.cidr === "::/0") assert.ok(ipBlock.except?.includes("fe80::/10"));
  }
  assert.is(blocks.filter(({ ipBlock }) => ipBlock !== undefined).length, 4);
});

test("an invalid spec ends in Error with every problem named and an Event; mended, it becomes Ready", async () => {
  await tenancy.createWorkload("broken", { image: { ref: "simulated/hello::bad" } });
  const broken = await tenancy.untilWorkload("broken", isObserved);
  assert.is(broken.status?.phase, "Error");
  assert.is(broken.status?.reason, "Invalid");
  assert.match(broken.status?.message ?? "", /spec\.image\.ref/);
  await tenancy.until("an Event", async () => {
    return (await tenancy.eventsOf(broken.metadata.uid)).some(({ reason }) => reason === "Invalid");
  });
  const body = { spec: { image: { ref: "simulated/hello:2" } } };
  await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "broken" }, { type: "merge", body });
  const mended = await tenancy.untilWorkload(
    "broken",
    (workload) => isObserved(workload) && workload.status?.phase === "Ready",
  );
  assert.is(mended.status?.message, undefined);
});

test("what cannot be done yet is refused, not ignored", async () => {
  const refused = {
    "with-allowlist": {
      spec: { network: { access: "restricted", allowlist: ["example.com"] } },
      reason: "EgressProxyUnavailable",
    },
    "with-dockerfile": { spec: { image: { dockerfile: "Dockerfile" } }, reason: "BuildUnavailable" },
  } as const;
  for (const [name, { spec, reason }] of Object.entries(refused)) {
    await tenancy.createWorkload(name, structuredClone(spec) as Partial<Workload["spec"]>);
    const workload = await tenancy.untilWorkload(name, isObserved);
    assert.is(workload.status?.phase, "Error");
    assert.is(workload.status?.reason, reason);
  }
});

test("a policy that a person deletes or edits comes back", async () => {
  const wanted = (await policyOf("hello")).spec;
  await tenancy.client.delete(networkPolicies, { namespace: NAMESPACE, name: "workload-hello" });
  await tenancy.until("the policy back", async () =>
    (await tenancy.client.list(networkPolicies, { namespace: NAMESPACE })).items.some(
      ({ metadata }) => metadata.name === "workload-hello",
    ),
  );
  // The second adds what the operator's own has no field for.
  for (const spec of [{ policyTypes: ["Ingress"], ingress: [{}] }, { egress: [{}] }]) {
    await tenancy.client.patch(
      networkPolicies,
      { namespace: NAMESPACE, name: "workload-hello" },
      { type: "merge", body: { spec } },
    );
    await tenancy.until(
      `the policy as it was before ${JSON.stringify(spec)}`,
      async () => JSON.stringify((await policyOf("hello")).spec) === JSON.stringify(wanted),
    );
  }
});

test("a change of the access changes the policy before the workload is Ready again", async () => {
  const body = { spec: { network: { access: "unrestricted" } } };
  await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "hello" }, { type: "merge", body });
  await tenancy.untilWorkload("hello", (workload) => isObserved(workload) && workload.status?.phase === "Ready");
  assert.is((await policyOf("hello")).spec.egress?.length, 1);
});

test.run();
