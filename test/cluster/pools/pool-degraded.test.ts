// @limit 600
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pools, workloads } from "../../../crds/kinds.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import type { Pool } from "../../../crds/pool.ts";
import { defineResource } from "../../../crds/resource.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("pools that fail");
const quotas = defineResource<KubernetesObject & { spec: object; status?: object }>({
  group: "",
  version: "v1",
  plural: "resourcequotas",
  kind: "ResourceQuota",
});
let tenancy: Tenancy;
let operator: RunningOperator;

test.before(async () => {
  tenancy = await startTenancy("test-pool-degraded");
  operator = tenancy.startOperator();
});
test.after(() => tenancy?.stop());

const holds = ({ status }: Pool) =>
  (status?.conditions ?? []).flatMap(({ type, status: is }) => (is === "True" ? [type] : []));

async function failures(name: string) {
  return (await tenancy.eventsOf(name)).filter(({ reason }) => reason === "PodsFail");
}

const created = () => operator.requests.filter(({ verb, resource }) => verb === "create" && resource === "pods").length;

test("pods that are ready for a moment and then end again and again: Degraded, one Event, and well again when mended", async () => {
  await tenancy.createWorkload("short", { image: { ref: "simulated/short-lived:1" } });
  await tenancy.createPool("short", { workloadRef: "short", size: 1 });
  const degraded = await tenancy.untilPool("short", ({ status }) => status?.phase === "Degraded");
  assert.equal(holds(degraded), ["Stalled", "Degraded"]);
  assert.is(degraded.status?.reason, "PodsFail");
  assert.match(degraded.status?.message ?? "", /ends again and again; last: exit code 1/);
  // Later ones are ready for a moment too, and it stays as it is.
  const before = created();
  const seen: string[] = [];
  await tenancy.until("three more pods", async () => {
    const { status } = await tenancy.client.get(pools, { namespace: NAMESPACE, name: "short" });
    if (status?.phase !== undefined) seen.push(status.phase);
    return created() >= before + 3;
  });
  assert.equal([...new Set(seen)], ["Degraded"]);
  assert.equal(
    (await failures("short")).map(({ type, count }) => [type, count]),
    [["Warning", 1]],
  );
  // The next operator goes on from there.
  await operator.stop();
  operator = tenancy.startOperator({ identity: "next" });
  await tenancy.until("pods of the next operator, of which one has failed", () => created() >= 2);
  const later = await tenancy.client.get(pools, { namespace: NAMESPACE, name: "short" });
  assert.equal(later.status?.conditions, degraded.status?.conditions);
  assert.is((await failures("short")).length, 1);
  const body = { spec: { image: { ref: "simulated/hello:1" } } };
  await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "short" }, { type: "merge", body });
  const well = await tenancy.untilPool("short", ({ status }) => status?.phase === "Ready");
  assert.equal(holds(well), ["Ready"]);
  assert.is(well.status?.message, undefined);
});

test("a quota without room: Degraded with what the cluster says, and well again by itself when there is room", async () => {
  const hard = { pods: "0" };
  const reference = { namespace: NAMESPACE, name: "full" };
  await tenancy.client.create(quotas, { metadata: reference, spec: { hard } });
  // No controller manager runs here, whose part it is to fill in the status that admission goes by.
  const body = { status: { hard, used: { pods: "0" } } };
  await tenancy.client.patch(quotas, reference, { type: "merge", subresource: "status", body });
  await tenancy.createWorkload("crowded");
  await tenancy.createPool("crowded", { workloadRef: "crowded", size: 1 });
  const degraded = await tenancy.untilPool("crowded", ({ status }) => status?.phase === "Degraded");
  assert.equal(holds(degraded), ["Stalled", "Degraded"]);
  assert.match(degraded.status?.message ?? "", /exceeded quota: full/);
  await tenancy.until("an Event", async () => (await failures("crowded")).length > 0);
  await tenancy.client.delete(quotas, reference);
  const well = await tenancy.untilPool("crowded", ({ status }) => status?.phase === "Ready");
  assert.equal(holds(well), ["Ready"]);
  assert.is((await failures("crowded")).length, 1);
});

test("pods that no node takes: Filling, with what the scheduler says", async () => {
  await tenancy.createWorkload("nowhere", { image: { ref: "simulated/unschedulable:1" } });
  await tenancy.createPool("nowhere", { workloadRef: "nowhere", size: 1 });
  const filling = await tenancy.untilPool("nowhere", ({ status }) => status?.reason === "Unschedulable");
  assert.equal(holds(filling), ["Reconciling", "Progressing"]);
  assert.match(filling.status?.message ?? "", /no node can take the pod yet: 0\/2 nodes are available/);
});

test.run();
