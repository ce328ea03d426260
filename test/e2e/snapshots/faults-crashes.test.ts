// @limit 900
import * as assert from "uvu/assert";
import { archiveOf } from "./faults.ts";
import { coldAndWarm, lifeSuite } from "./life-suite.ts";
import { digestOfMany, fillClaim, isActive, keepMany } from "./many-bytes.ts";

const test = lifeSuite("a crash in the middle of a save or a restore", { name: "crashes", prepare: coldAndWarm });

test("the helper pod is killed during a save: it comes back, and the release ends well", async ({ life, faults }) => {
  const [claim, digest] = await fillClaim(life, "save-helper", "warm");
  await life.deleteClaim(claim);
  await faults.untilSaving("save-helper");
  await faults.killHelper();
  assert.is(archiveOf(life, claim), undefined, "it was in the middle");
  await life.untilGone(claim);
  const next = await life.claim("save-helper", "warm", true);
  assert.is(await digestOfMany(life, next), digest);
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
    assert.is(await digestOfMany(life, active), digest);
    await life.release(active);
  });

  test(`the operator is killed during a restore, ${source}: its successor finishes`, async ({ life, faults }) => {
    const tenant = `restore-operator-${workload}`;
    const digest = await keepMany(life, tenant, workload);
    const claim = await life.createClaim(tenant, workload, true);
    const pod = await faults.untilRestoring(claim);
    await life.killOperator();
    assert.is((await life.find(claim))?.status?.phase, "Pending", "it was in the middle");
    await life.startOperator();
    const active = await life.untilClaim(claim, "to be Active", isActive);
    assert.match(active.status?.source ?? "", /\+data$/);
    assert.is.not(active.status?.instanceId, pod.metadata.name, "a pod is restored into by one operator");
    assert.is(await digestOfMany(life, active), digest);
    await life.release(active);
  });
}

test("the operator is killed during a save: its successor finishes", async ({ life, faults }) => {
  await life.keep("save-operator", "warm", "old");
  const [claim, digest] = await fillClaim(life, "save-operator", "warm");
  const before = archiveOf(life, claim);
  await life.deleteClaim(claim);
  await faults.untilSaving("save-operator");
  await life.killOperator();
  assert.equal(archiveOf(life, claim), before);
  await life.startOperator();
  await life.untilGone(claim);
  const next = await life.claim("save-operator", "warm", true);
  assert.is(await digestOfMany(life, next), digest);
  await life.release(next);
});

test.run();
