// @long it waits for a minute without a leader; unit/operator/history and pool-replacement prove each rule
// @own-cluster
// @waits
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { leases, pods } from "../../../crds/client/built-in-resources.ts";
import { label } from "../../../crds/labels.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("a pool without a leader");
/** By the Lease alone, the cluster could have been restored from a backup after that. */
const UNKNOWN_AFTER_MS = 60_000;
let tenancy: Tenancy;

test.before(async () => {
  tenancy = await startTenancy("test-pool-leader-lost");
});
test.after(() => tenancy?.stop());

test("keeps its warm pods through an outage of the API server that its operator outlives", async () => {
  const operator = tenancy.startOperator({ config: { leaseMs: 2000 } });
  await tenancy.createWorkload("app");
  await tenancy.createPool("p", { workloadRef: "app", size: 5 });
  await tenancy.untilPool("p", ({ status }) => status?.phase === "Ready");
  // Its watches were open long before the last renewal.
  await tenancy.until("renewals over 5 s", async () => {
    const { spec } = await tenancy.client.get(leases, { namespace: NAMESPACE, name: "tenancy-operator" });
    return Date.parse(spec?.renewTime ?? "") - Date.parse(spec?.acquireTime ?? "") > 5000;
  });
  const warm = tenancy.members("p").map(({ metadata }) => metadata.name);
  await tenancy.cluster.apiServer.kill();
  await new Promise((resolve) => setTimeout(resolve, UNKNOWN_AFTER_MS + 3000));
  operator.requests.length = 0;
  await tenancy.cluster.apiServer.start();
  await tenancy.createClaim("alice", "app");
  const { status } = await tenancy.untilClaim("claim-alice-app", { phase: "Active" });
  assert.is(status?.source, "pool");
  assert.ok(warm.includes(status?.instanceId ?? ""));
  // By now its term has looked at each of them.
  await tenancy.untilPool("p", (pool) => pool.status?.phase === "Ready" && pool.status.ready === 5);
  const { items } = await tenancy.client.list(pods, { namespace: NAMESPACE, labelSelector: `${label.managed}=true` });
  const left = items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  assert.equal(
    warm.filter((name) => !left.some(({ metadata }) => metadata.name === name)),
    [],
  );
  assert.equal(
    operator.requests.filter(({ verb, resource }) => verb === "delete" && resource === "pods"),
    [],
  );
});

test.run();
