import { suite } from "uvu";
import * as assert from "uvu/assert";
import { networkPolicies } from "../../../crds/client/built-in-resources.ts";
import { workloads } from "../../../crds/kinds.ts";
import { finalizer } from "../../../crds/labels.ts";
import { exists, NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("release");
let tenancy: Tenancy;

test.before(async () => {
  tenancy = await startTenancy("test-release");
  tenancy.startOperator();
  await tenancy.createWorkload("hello");
});
test.after(() => tenancy?.stop());

test("goes through Releasing and Released, and leaves neither pod nor claim", async () => {
  const { metadata } = await tenancy.createClaim("alice", "hello");
  const active = await tenancy.untilClaim(metadata.name, { phase: "Active" });
  await tenancy.deleteClaim(metadata.name);
  await tenancy.untilGone(metadata.name);
  assert.equal(tenancy.phases.get(metadata.name), ["Pending", "Active", "Releasing", "Released", "(gone)"]);
  assert.is((await tenancy.podsOf(active)).length, 0);
});

test("a claim made while the release of another object of its pair runs waits for its end", async () => {
  await tenancy.createWorkload("slow", { image: { ref: "simulated/slow-stop:1" } });
  const first = await tenancy.createClaim("alice", "slow");
  const active = await tenancy.untilClaim(first.metadata.name, { phase: "Active" });
  await tenancy.deleteClaim(first.metadata.name);
  await tenancy.untilClaim(first.metadata.name, { phase: "Releasing" });
  const second = await tenancy.createClaim("alice", "slow", { name: "claim-alice-slow-again" });
  const claim = await tenancy.untilClaim(second.metadata.name, { phase: "Active" });
  assert.is(tenancy.phases.get(first.metadata.name)?.at(-1), "(gone)");
  assert.is.not(claim.status?.instanceId, active.status?.instanceId);
});

test("releases a claim that is still Pending, and one in Error", async () => {
  await tenancy.createWorkload("never-ready", { image: { ref: "simulated/never-ready:1" } });
  const pending = await tenancy.createClaim("alice", "never-ready");
  await tenancy.until("a pod", async () => (await tenancy.podsOf(pending)).length === 1);
  const failed = await tenancy.createClaim("alice", "unknown");
  await tenancy.untilClaim(failed.metadata.name, { phase: "Error" });
  for (const { metadata } of [pending, failed]) await tenancy.deleteClaim(metadata.name);
  for (const { metadata } of [pending, failed]) await tenancy.untilGone(metadata.name);
  assert.is((await tenancy.podsOf(pending)).length, 0);
});

test("does not need the workload, which is held until the last claim on it is gone, and its policy goes with it", async () => {
  await tenancy.createWorkload("held");
  const claim = await tenancy.createClaim("alice", "held");
  await tenancy.untilClaim(claim.metadata.name, { phase: "Active" });
  await tenancy.client.delete(workloads, { namespace: NAMESPACE, name: "held" });
  const held = await tenancy.client.get(workloads, { namespace: NAMESPACE, name: "held" });
  assert.equal(held.metadata.finalizers, [finalizer.inUse]);
  await tenancy.until("the operator knows of the deletion", async () => {
    return (await tenancy.eventsOf(held.metadata.uid)).some(({ reason }) => reason === "InUse");
  });
  assert.is((await tenancy.untilClaim(claim.metadata.name, { phase: "Active" })).status?.phase, "Active");
  // A claim that was refused does not hold it.
  const late = await tenancy.createClaim("bob", "held");
  const refused = await tenancy.untilClaim(late.metadata.name, { phase: "Error" });
  assert.is(refused.status?.reason, "WorkloadTerminating");
  assert.match(refused.status?.message ?? "", /being deleted/);
  await tenancy.deleteClaim(claim.metadata.name);
  await tenancy.until("the workload gone", async () => !(await exists(tenancy.client, workloads, "held")));
  assert.not(await exists(tenancy.client, networkPolicies, "workload-held"));
  await tenancy.createWorkload("held");
  await tenancy.untilClaim(late.metadata.name, { phase: "Active" });
});

test.run();
