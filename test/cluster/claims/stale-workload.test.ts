import { suite } from "uvu";
import * as assert from "uvu/assert";
import { claims, workloads } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { heldBack } from "../held-back.ts";
import { exists, NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("stale workload");
let tenancy: Tenancy;

test.before(async () => {
  tenancy = await startTenancy("test-stale-workload");
});
test.after(() => tenancy?.stop());

test("a claim that is tried again right after its workload was mended gets the mended one, however late its watch is", async () => {
  const operator = tenancy.startOperator({ wrap: (client) => heldBack(client, "tenancyworkloads") });
  await tenancy.createWorkload("late", { image: { ref: "simulated/missing:1" } });
  await tenancy.untilWorkload("late", ({ status }) => status?.phase === "Ready");
  const { metadata } = await tenancy.createClaim("alice", "late");
  const failed = await tenancy.untilClaim(metadata.name, { phase: "Error" });
  assert.is(failed.status?.reason, "ImagePullFailed");
  await tenancy.until("no pod", async () => (await tenancy.podsOf(failed)).length === 0);

  const body = { spec: { image: { ref: "simulated/hello:1" } } };
  await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "late" }, { type: "merge", body });
  const again = { metadata: { annotations: { [annotation.attempt]: "2" } } };
  await tenancy.client.patch(claims, { namespace: NAMESPACE, name: metadata.name }, { type: "merge", body: again });
  const answered = await tenancy.untilClaim(metadata.name, (claim) => claim?.status?.attempt === "2");
  assert.is(answered.status?.phase, "Active", JSON.stringify(answered.status));
  const images = (await tenancy.podsOf(answered)).map(({ spec }) => spec.containers[0]?.image);
  assert.equal(images, ["simulated/hello:1"]);
  await operator.stop();
});

test("a claim on a workload that was just made anew is not failed for the one before, which the watch still shows", async () => {
  const operator = tenancy.startOperator({ wrap: (client) => heldBack(client, "tenancyworkloads") });
  await tenancy.createWorkload("renewed", { image: { ref: "simulated/hello:1" } });
  await tenancy.untilWorkload("renewed", ({ status }) => status?.phase === "Ready");
  await tenancy.client.delete(workloads, { namespace: NAMESPACE, name: "renewed" });
  await tenancy.until("the workload gone", async () => !(await exists(tenancy.client, workloads, "renewed")));
  await tenancy.createWorkload("renewed", { image: { ref: "simulated/hello:1" } });
  const { metadata } = await tenancy.createClaim("bob", "renewed");
  const claim = await tenancy.untilClaim(metadata.name, (one) =>
    ["Active", "Error"].includes(one?.status?.phase ?? ""),
  );
  assert.is(claim.status?.phase, "Active", JSON.stringify(claim.status));
  await operator.stop();
});

test.run();
