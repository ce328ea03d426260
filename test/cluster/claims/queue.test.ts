import { suite } from "uvu";
import * as assert from "uvu/assert";
import { isConflict } from "../../../crds/client/api-error.ts";
import { pods, resourceQuotas } from "../../../crds/client/built-in-resources.ts";
import { claims, pools } from "../../../crds/kinds.ts";
import { claimName } from "../../../crds/names.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("claims that wait for room in a quota");
const QUOTA = { namespace: NAMESPACE, name: "full" };

let tenancy: Tenancy;
let operator: RunningOperator;
let counting: Promise<void> | undefined;
const stopping = new AbortController();

test.before(async () => {
  tenancy = await startTenancy("test-queue");
  operator = tenancy.startOperator();
  for (const name of ["w1", "w2", "w3", "w4", "w5"]) await tenancy.createWorkload(name);
  await tenancy.client.create(resourceQuotas, { metadata: QUOTA, spec: { hard: { pods: "0" } } });
  counting = countPods();
});
test.after(async () => {
  stopping.abort();
  await counting;
  await tenancy?.stop();
});

/** Does what a controller manager does, which does not run here: fills in the limit and the use of the quota. */
async function countPods(): Promise<void> {
  while (!stopping.signal.aborted) {
    const { spec, status, metadata } = await tenancy.client.get(resourceQuotas, QUOTA);
    const { items } = await tenancy.client.list(pods, { namespace: NAMESPACE });
    const { hard = {} } = spec ?? {};
    const used = { pods: String(items.length) };
    const isCounted = JSON.stringify(status) === JSON.stringify({ hard, used });
    const { resourceVersion } = metadata;
    const isWritten = isCounted || (await write({ metadata: { resourceVersion }, status: { hard, used } }));
    if (isWritten) await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** @returns false if admission has counted a pod since the quota was read */
async function write(body: object): Promise<boolean> {
  try {
    await tenancy.client.patch(resourceQuotas, QUOTA, { type: "merge", subresource: "status", body });
    return true;
  } catch (error) {
    if (isConflict(error)) return false;
    throw error;
  }
}

async function allow(count: number): Promise<void> {
  const hard = { pods: String(count) };
  await tenancy.client.patch(resourceQuotas, QUOTA, { type: "merge", body: { spec: { hard } } });
  await tenancy.until("the quota to be in force", async () => {
    const { status } = await tenancy.client.get(resourceQuotas, QUOTA);
    return status?.hard?.pods === hard.pods;
  });
}

const nameOf = (tenantId: string, workloadRef: string) => claimName({ tenantId, workloadRef });

const active = (tenant: string, workload: string) => tenancy.untilClaim(nameOf(tenant, workload), { phase: "Active" });

const waits = (tenant: string, workload: string, place: string) =>
  tenancy.untilClaim(
    nameOf(tenant, workload),
    (claim) =>
      claim?.status?.reason === "WaitingForRoom" && claim.status.message?.startsWith(`place ${place} `) === true,
  );

async function claimed(tenant: string, ...workloads: string[]): Promise<void> {
  for (const workload of workloads) await tenancy.createClaim(tenant, workload);
}

test("the tenant with the fewest instances comes first, claims say their place, and a new operator goes on with them", async () => {
  await allow(3);
  await claimed("ann", "w1", "w2", "w3");
  for (const workload of ["w1", "w2", "w3"]) await active("ann", workload);
  await claimed("ann", "w4");
  await waits("ann", "w4", "1 of 1");
  await claimed("ann", "w5");
  await claimed("bob", "w1");
  const waiting = await waits("bob", "w1", "1 of 3");
  assert.match(waiting.status?.message ?? "", /room in quota "full" \(pods\): the claim continues by itself when/);
  await claimed("bob", "w2");
  await waits("ann", "w4", "3 of 4");
  await operator.stop();
  operator = tenancy.startOperator({ identity: "next" });
  await tenancy.until("the next operator to lead", async () => (await tenancy.leader()) === "next");
  await tenancy.release(nameOf("ann", "w1"));
  await active("bob", "w1");
  // Now each has one instance, and this claim has waited longest.
  await tenancy.release(nameOf("ann", "w2"));
  await active("ann", "w4");
  assert.is((await waits("bob", "w2", "1 of 2")).status?.phase, "Pending");
  await allow(5);
  await active("bob", "w2");
  await active("ann", "w5");
});

test("warm pods make room for claims, and their pool waits until the queue is empty", async () => {
  await releaseAll();
  await allow(4);
  await tenancy.createPool("spare", { workloadRef: "w5", size: 3 });
  await tenancy.until("three warm pods", () => tenancy.members("spare", "ready").length === 3);
  await claimed("ann", "w1", "w2", "w3", "w4");
  for (const workload of ["w1", "w2", "w3", "w4"]) await active("ann", workload);
  assert.is(tenancy.members("spare").length, 0);
  await claimed("bob", "w1");
  await waits("bob", "w1", "1 of 1");
  const held = await tenancy.untilPool("spare", ({ status }) => status?.reason === "QuotaExceeded");
  assert.match(held.status?.message ?? "", /no room for another pod/);
  await tenancy.release(nameOf("ann", "w1"));
  await active("bob", "w1");
  await allow(7);
  await tenancy.untilPool("spare", ({ status }) => status?.phase === "Ready");
});

test("a claim waits no longer than the operator is told, and no warm pod ends for one that would not fit even then", async () => {
  await allow(4);
  await operator.stop();
  operator = tenancy.startOperator({ identity: "impatient", config: { queueTimeoutMs: 7000 } });
  await claimed("carl", "w1");
  await waits("carl", "w1", "1 of 1");
  const { status } = await tenancy.untilClaim(nameOf("carl", "w1"), { phase: "Error" });
  assert.is(status?.reason, "QuotaExceeded");
  assert.match(
    status?.message ?? "",
    /^quota "full" \(pods\) had no room for another instance for 7 s \(TENANCY_QUEUE/,
  );
});

test("an operator that is told not to let claims wait refuses those without room at once, and no others", async () => {
  await operator.stop();
  operator = tenancy.startOperator({ identity: "hasty", config: { queueTimeoutMs: 0 } });
  await releaseAll();
  await tenancy.client.delete(pools, { namespace: NAMESPACE, name: "spare" });
  await tenancy.until("the quota to count no pod", async () => {
    const { status } = await tenancy.client.get(resourceQuotas, QUOTA);
    return status?.used?.pods === "0";
  });
  await allow(1);
  const all = ["w1", "w2", "w3"];
  await claimed("dora", ...all);
  const ended = await Promise.all(
    all.map((workload) =>
      tenancy.untilClaim(nameOf("dora", workload), (claim) => /Active|Error/.test(claim?.status?.phase ?? "")),
    ),
  );
  assert.equal(ended.map(({ status }) => status?.phase).sort(), ["Active", "Error", "Error"]);
  const refused = ended.find(({ status }) => status?.phase === "Error");
  assert.match(refused?.status?.message ?? "", /^quota "full" \(pods\) had no room for another instance: release one/);
});

async function releaseAll(): Promise<void> {
  const { items } = await tenancy.client.list(claims, { namespace: NAMESPACE });
  for (const { metadata } of items) await tenancy.release(metadata.name);
}

test.run();
