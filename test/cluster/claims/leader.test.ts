// @own-cluster
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { cutLeases } from "../cut-leases.ts";
import { startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("leader");
/** A lease that runs out in the test. */
const SHORT = { leaseMs: 2000 };
let tenancy: Tenancy;

test.before(async () => {
  tenancy = await startTenancy("test-leader");
});
test.after(() => tenancy?.stop());

function writes(requests: { verb: string; resource: string }[]): number {
  return requests.filter(({ verb, resource }) => !["get", "list", "watch"].includes(verb) && resource !== "leases")
    .length;
}

test("a clean stop hands over at once, long before the lease runs out", async () => {
  // A lease that outlives this test: only a hand-over can let the second one lead.
  const config = { leaseMs: 600_000 };
  const first = tenancy.startOperator({ config, identity: "first" });
  await tenancy.until("first leads", async () => (await tenancy.leader()) === "first");
  const second = tenancy.startOperator({ config, identity: "second" });
  await second.synced;
  await tenancy.createWorkload("hello");
  await tenancy.createClaim("alice", "hello");
  await tenancy.untilClaim("claim-alice-hello", { phase: "Active" });
  assert.is(writes(second.requests), 0);
  await first.stop();
  await tenancy.createClaim("bob", "hello");
  await tenancy.untilClaim("claim-bob-hello", { phase: "Active" });
  assert.is(await tenancy.leader(), "second");
  await second.stop();
  assert.is(await tenancy.leader(), "");
});

test("a leader that cannot renew stops writing, and leads again only when it can", async () => {
  let cut = false;
  const wrap = (client: ClusterClient): ClusterClient => cutLeases(client, () => cut);
  const cutOff = tenancy.startOperator({ config: SHORT, identity: "cut-off", wrap });
  await tenancy.until("cut-off leads", async () => (await tenancy.leader()) === "cut-off");
  await tenancy.createClaim("carol", "hello");
  await tenancy.untilClaim("claim-carol-hello", { phase: "Active" });

  cut = true;
  const successor = tenancy.startOperator({ identity: "successor" });
  await tenancy.until("successor leads", async () => (await tenancy.leader()) === "successor");
  const before = writes(cutOff.requests);
  await tenancy.createClaim("dave", "hello");
  const claim = await tenancy.untilClaim("claim-dave-hello", { phase: "Active" });
  assert.is((await tenancy.everPodsOf(claim)).length, 1);
  assert.is(writes(cutOff.requests), before);

  cut = false;
  await successor.stop();
  await tenancy.until("cut-off leads again", async () => (await tenancy.leader()) === "cut-off");
  await tenancy.createClaim("erin", "hello");
  await tenancy.untilClaim("claim-erin-hello", { phase: "Active" });
  await cutOff.stop();
});

test("an API server that is killed and comes back finds the operator at work again, with claims made before and after", async () => {
  const operator = tenancy.startOperator({ config: SHORT, identity: "patient" });
  await tenancy.until("it leads", async () => (await tenancy.leader()) === "patient");
  await tenancy.createClaim("frank", "hello");
  await tenancy.cluster.apiServer.kill();
  // Longer than a leader may go on without a renewal.
  await new Promise((resolve) => setTimeout(resolve, 3000));
  await tenancy.cluster.apiServer.start();
  await tenancy.untilClaim("claim-frank-hello", { phase: "Active" });
  await tenancy.createClaim("grace", "hello");
  const claim = await tenancy.untilClaim("claim-grace-hello", { phase: "Active" });
  assert.is((await tenancy.everPodsOf(claim)).length, 1);
  await operator.stop();
});

test.run();
