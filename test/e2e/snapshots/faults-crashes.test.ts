// @limit 1800
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { archiveOf } from "./faults.ts";
import { coldAndWarm, lifeSuite } from "./life-suite.ts";
import { NAMESPACE } from "./lifecycle.ts";
import { digestOfMany, fillClaim, isActive, keepMany } from "./many-bytes.ts";

/** Those whose files are restored. */
const returning = [
  ["restore-helper-warm", "warm"],
  ["restore-helper-cold", "cold"],
  ["restore-operator-warm", "warm"],
  ["restore-operator-cold", "cold"],
  ["restore-suspended", "warm"],
] as const;
/** Of their files, by the tenant. */
const digests = new Map<string, string>();

const test = lifeSuite("a crash or a long pause in the middle of a save or a restore", {
  name: "crashes",
  async prepare(life) {
    await coldAndWarm(life);
    await Promise.all([
      ...["save-operator", "save-lost"].map((tenant) => life.keep(tenant, "warm", "old")),
      ...returning.map(async ([tenant, workload]) => digests.set(tenant, await keepMany(life, tenant, workload))),
    ]);
    await life.untilPool("warm", 2);
  },
});

test("the helper pod is killed during a save: it comes back, and the release ends well", async ({ life, faults }) => {
  const [claim, digest] = await fillClaim(life, "save-helper", "warm");
  await life.deleteClaim(claim);
  await faults.untilSaving("save-helper");
  await faults.killHelper();
  assert.is(await archiveOf(life, claim), undefined, "it was in the middle");
  await life.untilGone(claim);
  const next = await life.claim("save-helper", "warm", true);
  assert.is(await digestOfMany(life, next), digest);
});

for (const workload of ["warm", "cold"]) {
  const source = workload === "warm" ? "pool+data" : "cold+data";

  test(`the helper pod is killed during a restore, ${source}: the claim gets its files in the end`, async (context) => {
    const { life, faults } = context;
    const tenant = `restore-helper-${workload}`;
    const claim = await life.createClaim(tenant, workload, true);
    await faults.untilRestoring(claim);
    await faults.killHelper();
    assert.is((await life.find(claim))?.status?.phase, "Pending", "it was in the middle");
    const active = await life.untilClaim(claim, "to be Active", isActive);
    assert.match(active.status?.source ?? "", /\+data$/);
    assert.is(await digestOfMany(life, active), digests.get(tenant));
  });

  test(`the operator is killed during a restore, ${source}: its successor finishes`, async ({ life, faults }) => {
    const tenant = `restore-operator-${workload}`;
    const claim = await life.createClaim(tenant, workload, true);
    const pod = await faults.untilRestoring(claim);
    await life.killOperator();
    assert.is((await life.find(claim))?.status?.phase, "Pending", "it was in the middle");
    await life.startOperator();
    const active = await life.untilClaim(claim, "to be Active", isActive);
    assert.match(active.status?.source ?? "", /\+data$/);
    assert.is.not(active.status?.instanceId, pod.metadata.name, "a pod is restored into by one operator");
    assert.is(await digestOfMany(life, active), digests.get(tenant));
  });
}

test("the operator is killed during a save: its successor finishes", async ({ life, faults }) => {
  const [claim, digest] = await fillClaim(life, "save-operator", "warm");
  const before = await archiveOf(life, claim);
  await life.deleteClaim(claim);
  await faults.untilSaving("save-operator");
  await life.killOperator();
  assert.equal(await archiveOf(life, claim), before);
  await life.startOperator();
  await life.untilGone(claim);
  const next = await life.claim("save-operator", "warm", true);
  assert.is(await digestOfMany(life, next), digest);
});

test("a pod is lost during the save of its files: the archive of before stays, and the release ends", async (context) => {
  const { life, faults } = context;
  const [claim] = await fillClaim(life, "save-lost", "warm");
  const before = await archiveOf(life, claim);
  await life.deleteClaim(claim);
  await faults.untilSaving("save-lost");
  const { instanceId = "" } = claim.status ?? {};
  await life.client.delete(pods, { namespace: NAMESPACE, name: instanceId }, { gracePeriodSeconds: 0 });
  await life.untilGone(claim);
  assert.equal(await archiveOf(life, claim), before);
  const next = await life.claim("save-lost", "warm", true);
  assert.is(await life.kept(next), "old\n");
});

/** Of operators of which one leads once the other has not renewed it. */
const SHORT_LEASE = { TENANCY_LEASE_SECONDS: "5" };

test("an operator that was suspended during a save never replaces what came after it", async ({ life, faults }) => {
  await life.killOperator();
  const suspended = await life.startOperator(SHORT_LEASE);
  const [claim] = await fillClaim(life, "save-suspended", "warm");
  await life.deleteClaim(claim);
  await faults.untilSaving("save-suspended");
  suspended.pause();
  assert.is(await archiveOf(life, claim), undefined, "it was in the middle");
  const successor = await life.startOperator(SHORT_LEASE);
  await life.untilGone(claim);
  await life.keep("save-suspended", "warm", "newer");
  const newer = await archiveOf(life, claim);
  suspended.resume();
  await life.keep("another", "warm", "works on");
  await successor.kill();
  // It leads again, and was therefore done with what it did before.
  const next = await life.claim("save-suspended", "warm", true);
  assert.equal(await archiveOf(life, claim), newer);
  assert.is(await life.kept(next), "newer\n");
});

test("an operator that was suspended during a restore never writes over what its tenant wrote since", async (context) => {
  const { life, faults } = context;
  // Into a cold pod it writes as an init container, which is over before the tenant writes.
  const [tenant, workload] = ["restore-suspended", "warm"];
  await life.killOperator();
  const suspended = await life.startOperator(SHORT_LEASE);
  const claim = await life.createClaim(tenant, workload, true);
  await faults.untilRestoring(claim);
  suspended.pause();
  assert.is((await life.find(claim))?.status?.phase, "Pending", "it was in the middle");
  const successor = await life.startOperator(SHORT_LEASE);
  const active = await life.untilClaim(claim, "to be Active", isActive);
  assert.is(await digestOfMany(life, active), digests.get(tenant));
  await life.run(active.status?.instanceId, "echo mine > /data/large; echo mine > /data/small");
  suspended.resume();
  await successor.kill();
  await life.claim("another", workload, true);
  assert.is(await life.run(active.status?.instanceId, "$b cat /data/large /data/small"), "mine\nmine\n");
});

test.run();
