// @waits
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { recordSaves } from "../snapshots/recorded-saves.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

// What puts a release off: `rest/destroy-activity.test.ts`.
const test = suite("idle release");
let tenancy: Tenancy;
let operator: RunningOperator;

test.before(async () => {
  tenancy = await startTenancy("test-idle");
  operator = tenancy.startOperator();
  await tenancy.createWorkload("brief", { idle: { timeoutSeconds: 2 } });
  await tenancy.createWorkload("patient", { idle: { timeoutSeconds: 3_000_000 } });
  await tenancy.createWorkload("endless");
});
test.after(() => tenancy?.stop());

test("a claim that nobody uses is released after its time, not before", async () => {
  await tenancy.createClaim("alice", "brief");
  const active = await tenancy.untilClaim("claim-alice-brief", { phase: "Active" });
  const deleted = await tenancy.untilClaim(
    "claim-alice-brief",
    (claim) => claim?.metadata.deletionTimestamp !== undefined,
  );
  // The API server's deletion time is in whole seconds.
  const heldMs = Date.parse(deleted.metadata.deletionTimestamp ?? "") - Date.parse(active.status?.claimedAt ?? "");
  assert.ok(heldMs > 1000, `released after ${heldMs} ms`);
  await tenancy.untilGone("claim-alice-brief");
  assert.equal(tenancy.phases.get("claim-alice-brief")?.slice(-3), ["Releasing", "Released", "(gone)"]);
});

test("a successor keeps to the time as well, and claims without a timeout or with one of weeks stay", async () => {
  for (const workload of ["endless", "patient", "brief"]) {
    await tenancy.createClaim("carol", workload);
    await tenancy.untilClaim(`claim-carol-${workload}`, { phase: "Active" });
  }
  await operator.stop();
  operator = tenancy.startOperator();
  await tenancy.untilGone("claim-carol-brief");
  for (const workload of ["endless", "patient"]) {
    const claim = tenancy.claims.store.get(`${NAMESPACE}/claim-carol-${workload}`);
    assert.equal([claim?.status?.phase, claim?.metadata.deletionTimestamp], ["Active", undefined]);
  }
});

test("activity that could not be written for longer than the idle time still counts, as after an API server's outage", async () => {
  await tenancy.createClaim("dora", "brief");
  const { status } = await tenancy.untilClaim("claim-dora-brief", { phase: "Active" });
  await operator.stop();
  const left = Date.parse(status?.claimedAt ?? "") + 2500 - Date.now();
  await new Promise((resolve) => setTimeout(resolve, left));
  operator = tenancy.startOperator();
  // What it does for another claim after that shows that it has looked at this one.
  await tenancy.createClaim("erin", "endless");
  await tenancy.untilClaim("claim-erin-endless", { phase: "Active" });
  const ref = { namespace: NAMESPACE, name: status?.instanceId ?? "" };
  const used = new Date();
  const body = { metadata: { annotations: { [annotation.lastActivity]: used.toISOString() } } };
  await tenancy.client.patch(pods, ref, { type: "merge", body });
  const deleted = await tenancy.untilClaim(
    "claim-dora-brief",
    (claim) => claim === undefined || claim.metadata.deletionTimestamp !== undefined,
  );
  assert.ok(Date.parse(deleted.metadata.deletionTimestamp ?? "") - used.getTime() > 1000);
});

test("files are given up only where nobody has used the pod by the operator's own count too, whatever clocks say", async () => {
  await operator.stop();
  const { snapshots, saved } = await recordSaves(tenancy);
  operator = tenancy.startOperator({ snapshots });
  const idle = { timeoutSeconds: 25, action: "destroy" } as const;
  await tenancy.createWorkload("kept", { filesystem: { overlayDirs: ["/data"] }, idle });
  const ref = { namespace: NAMESPACE, name: "claim-finn-kept" };
  await tenancy.createClaim("finn", "kept");
  await tenancy.untilClaim(ref.name, { phase: "Active" });
  await operator.stop();
  // As of edges and operators whose clocks are an hour behind.
  const status = { claimedAt: new Date(Date.now() - 3_600_000).toISOString() };
  await tenancy.client.patch(claims, ref, { type: "merge", body: { status }, subresource: "status" });
  const from = Date.now();
  operator = tenancy.startOperator({ snapshots });
  const deleted = await tenancy.untilClaim(ref.name, (claim) => claim?.metadata.deletionTimestamp !== undefined);
  // An operator that went by the clock alone would wait 12.5 s, for activity that could not be written.
  const heldMs = Date.parse(deleted.metadata.deletionTimestamp ?? "") - from;
  assert.ok(heldMs > 23_000, `released after ${heldMs} ms`);
  await tenancy.untilGone(ref.name);
  assert.equal(saved, []);
});

test.run();
