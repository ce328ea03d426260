import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { heldBack } from "../held-back.ts";
import { startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("pool over-creation");
const SIZE = 20;
let tenancy: Tenancy;

test.before(async () => {
  tenancy = await startTenancy("test-pool-overcreation");
});
test.after(() => tenancy?.stop());

const wrap = (client: ClusterClient) => heldBack(client, "pods");

test("a store that is three seconds behind makes the operator create no pod too many, and give none twice", async () => {
  const operator = tenancy.startOperator({ wrap });
  const created = () =>
    operator.requests.filter(({ verb, resource, status }) => verb === "create" && resource === "pods" && status === 201)
      .length;
  await tenancy.createWorkload("late");
  await tenancy.createPool("late", { workloadRef: "late", size: SIZE, maxFillConcurrency: SIZE });
  await tenancy.until("full", () => tenancy.members("late", "ready").length === SIZE);
  assert.is(created(), SIZE);

  const tenants = ["a", "b", "c", "d", "e"];
  await Promise.all(tenants.map((tenant) => tenancy.createClaim(tenant, "late")));
  const active = await Promise.all(
    tenants.map((tenant) => tenancy.untilClaim(`claim-${tenant}-late`, { phase: "Active" })),
  );
  assert.is(new Set(active.map((claim) => claim.status?.instanceId)).size, tenants.length);
  await tenancy.until("full again", () => tenancy.members("late", "ready").length === SIZE);
  assert.is(created(), SIZE + tenants.length);
  assert.is([...tenancy.pods.store.values()].length, SIZE + tenants.length);
  await operator.stop();
});

test("a successor that takes over with a store that is behind creates no pod too many either", async () => {
  const config = { leaseMs: 600_000 };
  const first = tenancy.startOperator({ config, identity: "first" });
  await tenancy.until("first leads", () => tenancy.leader().then((holder) => holder === "first"));
  const second = tenancy.startOperator({ config, identity: "second", wrap });
  await second.synced;
  await tenancy.createWorkload("handed");
  await tenancy.createPool("handed", { workloadRef: "handed", size: SIZE, maxFillConcurrency: SIZE });
  // Enough to see that all pods of the pool were asked for, and less than the second one's delay.
  await tenancy.until("all asked for", () => tenancy.members("handed").length === SIZE);
  await first.stop();
  await tenancy.until("second leads", () => tenancy.leader().then((holder) => holder === "second"));
  await tenancy.until(
    "full",
    () => tenancy.members("handed", "ready").length === SIZE && tenancy.members("handed").length === SIZE,
  );
  const creations = second.requests.filter(({ verb, resource }) => verb === "create" && resource === "pods").length;
  assert.is(creations, 0);
  await second.stop();
});

test.run();
