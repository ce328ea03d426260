import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { nodes } from "../../../crds/client/built-in-resources.ts";
import { ZONE } from "../../../operator/pod/scheduling.ts";
import { startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("claims on nodes in zones");
const ZONES = ["a", "b"];

let tenancy: Tenancy;

test.before(async () => {
  tenancy = await startTenancy("test-zones");
  const { items } = await tenancy.client.list(nodes);
  for (const [place, { metadata }] of items.entries()) {
    const labels = { [ZONE]: ZONES[place % ZONES.length] };
    await tenancy.client.patch(nodes, metadata, { type: "merge", body: { metadata: { labels } } });
  }
});
test.after(() => tenancy?.stop());

/** The zone of each node, as the API server says. */
async function zoneOfNode(): Promise<Map<string | undefined, string | undefined>> {
  const { items } = await tenancy.client.list(nodes);
  return new Map(items.map(({ metadata }) => [metadata.name, metadata.labels?.[ZONE]]));
}

async function claimed(workload: string, tenant: string, zone?: string): Promise<Claim> {
  const { metadata } = await tenancy.createClaim(tenant, workload, {}, zone === undefined ? {} : { zone });
  return tenancy.untilClaim(metadata.name, { phase: "Active" });
}

test("claims take warm pods of their zone while there are some, and then others, and say which zone they got", async () => {
  const operator = tenancy.startOperator({ config: { watchNodes: true } });
  await operator.synced;
  await tenancy.createWorkload("near");
  await tenancy.createPool("near", { workloadRef: "near", size: 6, maxFillConcurrency: 6 });
  await tenancy.until("six warm pods", () => tenancy.members("near", "ready").length === 6);
  const zones = await zoneOfNode();
  const inZone = (zone: string) =>
    tenancy.members("near", "ready").filter(({ spec }) => zones.get(spec.nodeName) === zone);
  assert.equal(
    ZONES.map((zone) => inZone(zone).length),
    [3, 3],
  );
  for (const [tenant, zone] of [
    ["t1", "b"],
    ["t2", "a"],
    ["t3", "b"],
  ] as const) {
    const before = new Set(inZone(zone).map(({ metadata }) => metadata.name));
    const { status } = await claimed("near", tenant, zone);
    assert.equal([status?.source, status?.zone], ["pool", zone]);
    assert.ok(before.has(status?.instanceId ?? ""));
  }
  const { status } = await claimed("near", "t4", "elsewhere");
  assert.is(status?.source, "pool");
  assert.ok(ZONES.includes(status?.zone ?? ""));
  // No claim costs a request more.
  const verbs = operator.requests.flatMap(({ resource, verb }) => (resource === "nodes" ? [verb] : []));
  assert.equal([...new Set(verbs)].sort(), ["list", "watch"]);
  await operator.stop();
});

test("an operator that may not watch nodes gives any warm pod, and says that it knows no zone", async () => {
  const operator = tenancy.startOperator();
  await tenancy.createWorkload("blind");
  await tenancy.createPool("blind", { workloadRef: "blind", size: 1 });
  await tenancy.until("a warm pod", () => tenancy.members("blind", "ready").length === 1);
  const { status } = await claimed("blind", "t1", "b");
  assert.equal([status?.source, status?.zone], ["pool", undefined]);
  assert.match(status?.conditions?.find(({ type }) => type === "Ready")?.message ?? "", /its zone is not known/);
  assert.not(operator.requests.some(({ resource }) => resource === "nodes"));
});

test("a zone that no node can have is refused by the API server", async () => {
  const refused = await tenancy.createClaim("t", "blind", {}, { zone: "a zone" }).catch(String);
  assert.match(String(refused), /spec\.zone/);
});

test.run();
