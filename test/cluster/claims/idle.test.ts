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
  const idleMs = 100_000;
  await tenancy.createWorkload("dozing", { idle: { timeoutSeconds: idleMs / 1000 } });
  await tenancy.createClaim("dora", "dozing");
  const active = await tenancy.untilClaim("claim-dora-dozing", { phase: "Active" });
  await operator.stop();
  await writeClaimedAt("claim-dora-dozing", Date.now() - idleMs - 500);
  operator = tenancy.startOperator();
  // What it does for another claim after that shows that it has looked at this one.
  await tenancy.createClaim("erin", "endless");
  await tenancy.untilClaim("claim-erin-endless", { phase: "Active" });
  const ref = { namespace: NAMESPACE, name: active.status?.instanceId ?? "" };
  // It waits for this for 20 s, and would release the claim then.
  const used = Date.now() - 60_000;
  const body = { metadata: { annotations: { [annotation.lastActivity]: new Date(used).toISOString() } } };
  await tenancy.client.patch(pods, ref, { type: "merge", body });
  const deleted = await tenancy.untilClaim(
    "claim-dora-dozing",
    (claim) => claim === undefined || claim.metadata.deletionTimestamp !== undefined,
  );
  // The API server's deletion time is in whole seconds.
  assert.ok(Date.parse(deleted.metadata.deletionTimestamp ?? "") - used > idleMs - 1000);
});

test("files are given up only where nobody has used the pod by the operator's own count too, whatever clocks say", async () => {
  await operator.stop();
  const { snapshots, saved } = await recordSaves(tenancy);
  operator = tenancy.startOperator({ snapshots });
  const idle = { timeoutSeconds: 25, action: "destroy" } as const;
  await tenancy.createWorkload("kept", { filesystem: { overlayDirs: ["/data"] }, idle });
  const name = "claim-finn-kept";
  await tenancy.createClaim("finn", "kept");
  await tenancy.untilClaim(name, { phase: "Active" });
  await operator.stop();
  // As of edges and operators whose clocks are an hour behind.
  await writeClaimedAt(name, Date.now() - 3_600_000);
  const from = Date.now();
  operator = tenancy.startOperator({ snapshots });
  const deleted = await tenancy.untilClaim(name, (claim) => claim?.metadata.deletionTimestamp !== undefined);
  // An operator that went by the clock alone would wait 12.5 s, for activity that could not be written.
  const heldMs = Date.parse(deleted.metadata.deletionTimestamp ?? "") - from;
  assert.ok(heldMs > 23_000, `released after ${heldMs} ms`);
  await tenancy.untilGone(name);
  assert.equal(saved, []);
});

async function writeClaimedAt(name: string, time: number): Promise<void> {
  const body = { status: { claimedAt: new Date(time).toISOString() } };
  await tenancy.client.patch(claims, { namespace: NAMESPACE, name }, { type: "merge", body, subresource: "status" });
}

test.run();
