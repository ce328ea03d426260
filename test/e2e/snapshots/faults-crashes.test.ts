// @limit 400
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { archiveOf, createFaults, type Faults } from "./faults.ts";
import { type Lifecycle, startLifecycle } from "./lifecycle.ts";

const test = suite<{ life: Lifecycle; faults: Faults; digests: Map<string, string> }>(
  "a crash in the middle of a save or a restore",
);

const MANY_BYTES = "$b dd if=/dev/urandom of=/data/large bs=1M count=64 2>/dev/null; echo end > /data/small";
const DIGEST = "cd /data; $b find . -type f | $b sort | $b xargs $b sha256sum";

test.before(async (context) => {
  context.life = await startLifecycle(`e2e-crashes-${process.pid}`);
  context.faults = createFaults(context.life);
  await context.life.startOperator();
  await context.life.createWorkload("cold");
  await context.life.createWorkload("warm");
  await context.life.createPool("warm", "warm", 2);
});
test.after(({ life }) => life.down());

/** Claims and fills 64 MiB; resolves with the claim and a digest of its files. */
async function fillClaim(life: Lifecycle, tenantId: string, workloadRef: string): Promise<[Claim, string]> {
  const claim = await life.claim(tenantId, workloadRef, false);
  await life.run(claim.status?.instanceId, MANY_BYTES);
  return [claim, await life.run(claim.status?.instanceId, DIGEST)];
}

async function keepMany(life: Lifecycle, tenantId: string, workloadRef: string): Promise<string> {
  const [claim, digest] = await fillClaim(life, tenantId, workloadRef);
  await life.release(claim);
  return digest;
}

const isActive = (status: Claim["status"]) => status?.phase === "Active";

test("the helper pod is killed during a save: it comes back, and the release ends well", async ({ life, faults }) => {
  const [claim, digest] = await fillClaim(life, "save-helper", "warm");
  await life.deleteClaim(claim);
  await faults.untilSaving("save-helper");
  await faults.killHelper();
  assert.is(archiveOf(life, claim), undefined, "it was in the middle");
  await life.untilGone(claim);
  const next = await life.claim("save-helper", "warm", true);
  assert.is(await life.run(next.status?.instanceId, DIGEST), digest);
  await life.release(next);
});

for (const workload of ["warm", "cold"]) {
  const source = workload === "warm" ? "pool+data" : "cold+data";

  test(`the helper pod is killed during a restore, ${source}: the claim gets its files in the end`, async (context) => {
    const { life, faults } = context;
    const tenant = `restore-helper-${workload}`;
    const digest = await keepMany(life, tenant, workload);
    const claim = await life.createClaim(tenant, workload, true);
    await faults.untilRestoring(claim);
    await faults.killHelper();
    assert.is((await life.find(claim))?.status?.phase, "Pending", "it was in the middle");
    const active = await life.untilClaim(claim, "to be Active", isActive);
    assert.match(active.status?.source ?? "", /\+data$/);
    assert.is(await life.run(active.status?.instanceId, DIGEST), digest);
    await life.release(active);
  });

  test(`the operator is killed during a restore, ${source}: its successor finishes`, async ({ life, faults }) => {
    const tenant = `restore-operator-${workload}`;
    const digest = await keepMany(life, tenant, workload);
    const claim = await life.createClaim(tenant, workload, true);
    const pod = await faults.untilRestoring(claim);
    await faults.freezeHelper();
    await life.killOperator();
    assert.is((await life.find(claim))?.status?.phase, "Pending", "it was in the middle");
    await faults.thawHelper();
    await life.startOperator();
    const active = await life.untilClaim(claim, "to be Active", isActive);
    assert.match(active.status?.source ?? "", /\+data$/);
    assert.is.not(active.status?.instanceId, pod.metadata.name, "a pod is restored into by one operator");
    assert.is(await life.run(active.status?.instanceId, DIGEST), digest);
    await life.release(active);
  });
}

test("the operator is killed during a save: its successor finishes", async ({ life, faults }) => {
  await life.keep("save-operator", "warm", "old");
  const [claim, digest] = await fillClaim(life, "save-operator", "warm");
  const before = archiveOf(life, claim);
  await life.deleteClaim(claim);
  await faults.untilSaving("save-operator");
  await faults.freezeHelper();
  await life.killOperator();
  assert.equal(archiveOf(life, claim), before);
  await faults.thawHelper();
  await life.startOperator();
  await life.untilGone(claim);
  const next = await life.claim("save-operator", "warm", true);
  assert.is(await life.run(next.status?.instanceId, DIGEST), digest);
  await life.release(next);
});

test("an operator that was suspended during a save never replaces what came after it", async ({ life, faults }) => {
  await life.killOperator();
  const suspended = await life.startOperator();
  const [claim] = await fillClaim(life, "save-suspended", "warm");
  await life.deleteClaim(claim);
  await faults.untilSaving("save-suspended");
  suspended.pause();
  assert.is(archiveOf(life, claim), undefined, "it was in the middle");
  const successor = await life.startOperator();
  await life.untilGone(claim);
  await life.keep("save-suspended", "warm", "newer");
  const newer = archiveOf(life, claim);
  suspended.resume();
  await life.keep("another", "warm", "works on");
  await successor.kill();
  // It leads again, and was therefore done with what it did before.
  const next = await life.claim("save-suspended", "warm", true);
  assert.equal(archiveOf(life, claim), newer);
  assert.is(await life.kept(next), "newer\n");
  await life.release(next);
});

for (const workload of ["warm", "cold"]) {
  test(`an operator that was suspended during a restore, ${workload}, never writes over what its tenant wrote since`, async (context) => {
    const { life, faults } = context;
    const tenant = `restore-suspended-${workload}`;
    await life.killOperator();
    const suspended = await life.startOperator();
    const digest = await keepMany(life, tenant, workload);
    const claim = await life.createClaim(tenant, workload, true);
    await faults.untilRestoring(claim);
    suspended.pause();
    assert.is((await life.find(claim))?.status?.phase, "Pending", "it was in the middle");
    const successor = await life.startOperator();
    const active = await life.untilClaim(claim, "to be Active", isActive);
    assert.is(await life.run(active.status?.instanceId, DIGEST), digest);
    await life.run(active.status?.instanceId, "echo mine > /data/large; echo mine > /data/small");
    suspended.resume();
    await successor.kill();
    const other = await life.claim("another", workload, true);
    assert.is(await life.run(active.status?.instanceId, "$b cat /data/large /data/small"), "mine\nmine\n");
    await life.release(other);
    await life.release(active);
  });
}

test.run();
