import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import { resourceQuotas } from "../../../crds/client/built-in-resources.ts";
import { pools, workloads } from "../../../crds/kinds.ts";
import type { Pool } from "../../../crds/pool.ts";
import { exists, NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("pools that fail");
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
  assert.match(degraded.status?.message ?? "", /keeps exiting; last: exit code 1/);
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

/** Sets what the quota allows, and its use, which a controller manager would fill in and admission goes by. */
async function setQuota(hard: string, used: string): Promise<void> {
  const reference = { namespace: NAMESPACE, name: "full" };
  const spec = { hard: { pods: hard } };
  if (!(await exists(tenancy.client, resourceQuotas, "full")))
    await tenancy.client.create(resourceQuotas, { metadata: reference, spec });
  await tenancy.client.patch(resourceQuotas, reference, { type: "merge", body: { spec } });
  const body = { status: { ...spec, used: { pods: used } } };
  await tenancy.client.patch(resourceQuotas, reference, { type: "merge", subresource: "status", body });
}

const refusals = () =>
  operator.requests.filter(({ verb, resource, status }) => verb === "create" && resource === "pods" && status === 403);

test("a quota without room: Degraded for the quota, and filled in one go when it is raised", async () => {
  await setQuota("0", "0");
  await tenancy.createWorkload("crowded");
  await tenancy.createPool("crowded", { workloadRef: "crowded", size: 4, maxFillConcurrency: 4 });
  const degraded = await tenancy.untilPool("crowded", ({ status }) => status?.phase === "Degraded");
  assert.equal(holds(degraded), ["Stalled", "Degraded"]);
  assert.is(degraded.status?.reason, "QuotaExceeded");
  assert.match(degraded.status?.message ?? "", /no room for another pod.*exceeded quota: full/);
  const quotaEvents = async () =>
    (await tenancy.eventsOf("crowded")).map(({ type, reason, count }) => [type, reason, count]);
  await tenancy.until("an Event", async () => (await quotaEvents()).length > 0);
  // By now its own pace is slow.
  await tenancy.until("some tries", () => refusals().length >= 7);
  operator.requests.length = 0;
  await setQuota("10", "0");
  const well = await tenancy.untilPool("crowded", ({ status }) => status?.phase === "Ready");
  assert.equal(holds(well), ["Ready"]);
  assert.is(created(), 4 + refusals().length);
  // Admission may see the change after the operator does.
  assert.ok(refusals().length <= 2, `${refusals().length} refused`);
  assert.equal(await quotaEvents(), [["Warning", "QuotaExceeded", 1]]);
  await tenancy.client.delete(resourceQuotas, { namespace: NAMESPACE, name: "full" });
});

test("an operator that may not read quotas works as well, and a refused pool fills at its own pace", async () => {
  await operator.stop();
  operator = tenancy.startOperator({
    identity: "of-an-older-role",
    wrap: (client) => ({
      ...client,
      list: async (resource, options) => {
        if (resource.plural === resourceQuotas.plural)
          throw new ApiError("resourcequotas is forbidden", { status: 403, reason: "Forbidden" });
        return await client.list(resource, options);
      },
    }),
  });
  await setQuota("0", "0");
  await tenancy.createPool("patient", { workloadRef: "crowded", size: 2 });
  await tenancy.untilPool("patient", ({ status }) => status?.reason === "QuotaExceeded");
  await setQuota("100", "0");
  await tenancy.untilPool("patient", ({ status }) => status?.phase === "Ready");
  await tenancy.client.delete(resourceQuotas, { namespace: NAMESPACE, name: "full" });
});

test("pods that no node takes: Filling, with what the scheduler says", async () => {
  await tenancy.createWorkload("nowhere", { image: { ref: "simulated/unschedulable:1" } });
  await tenancy.createPool("nowhere", { workloadRef: "nowhere", size: 1 });
  const filling = await tenancy.untilPool("nowhere", ({ status }) => status?.reason === "Unschedulable");
  assert.equal(holds(filling), ["Reconciling", "Progressing"]);
  assert.match(filling.status?.message ?? "", /no node can take the pod yet: 0\/2 nodes are available/);
});

test.run();
