// @limit 900
import * as assert from "uvu/assert";
import { archiveOf } from "./faults.ts";
import { coldAndWarm, lifeSuite } from "./life-suite.ts";
import { digestOfMany, fillClaim, isActive, keepMany } from "./many-bytes.ts";

const test = lifeSuite("an operator that is suspended, and goes on when another leads", {
  name: "suspended",
  prepare: coldAndWarm,
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
    assert.is(await digestOfMany(life, active), digest);
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
