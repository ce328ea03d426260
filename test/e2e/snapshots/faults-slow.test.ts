// @limit 1800
import * as assert from "uvu/assert";
import { archiveOf } from "./faults.ts";
import { lifeSuite } from "./life-suite.ts";
import { digestOfMany, fillClaim, isActive } from "./many-bytes.ts";

const test = lifeSuite("a helper pod that hangs", {
  name: "slow",
  async prepare(life) {
    await life.createWorkload("keeps");
  },
});

test("a save that hangs fails in the end, keeps the pod, and ends well when it can go on", async ({ life, faults }) => {
  // Less than the minute after which a pod that is silent is given up.
  await life.killOperator();
  await life.startOperator({ TENANCY_SNAPSHOT_TIMEOUT: "15" });
  const [claim, digest] = await fillClaim(life, "hangs", "keeps");
  await life.deleteClaim(claim);
  await faults.untilSaving("hangs");
  await faults.freezeHelper();
  const failed = await life.untilClaim(claim, "to fail", (status) => status?.phase === "ReleaseFailed");
  // A server that hangs cannot be asked.
  if (life.objects === undefined) assert.is(await archiveOf(life, claim), undefined);
  assert.is((await faults.podsOf(failed)).length, 1);
  await life.killOperator();
  await life.startOperator();
  await faults.thawHelper();
  await life.untilGone(claim);
  const next = await life.claim("hangs", "keeps", true);
  assert.is(await digestOfMany(life, next), digest);
});

test("ten saves that hang do not hold up a claim without files, and one with files waits for its own", async (context) => {
  const { life, faults } = context;
  const tenants = Array.from({ length: 10 }, (_, index) => `slow-${index}`);
  await life.keep("has-files", "keeps", "mine");
  const slow = await Promise.all(tenants.map((tenant) => life.claim(tenant, "keeps", false)));
  for (const { status } of slow) {
    await life.run(status?.instanceId, "$b dd if=/dev/urandom of=/data/large bs=1M count=16 2>/dev/null");
  }
  await Promise.all(slow.map(life.deleteClaim));
  await Promise.any(tenants.map(faults.untilSaving));
  await faults.freezeHelper();
  const waiting = await life.createClaim("has-files", "keeps", true);
  await life.claim("no-files", "keeps", false);
  const done = await Promise.all(slow.map(async (claim) => (await life.find(claim)) === undefined));
  const overtaken = done.filter((isDone) => !isDone).length;
  assert.ok(overtaken >= 5, `${overtaken} releases were still under way`);
  console.log(`note: a claim was Active while ${overtaken} of 10 releases hung`);
  assert.is.not((await life.find(waiting))?.status?.phase, "Active", "whether it has files is not known yet");
  await faults.thawHelper();
  const active = await life.untilClaim(waiting, "to be Active", isActive);
  assert.is(await life.kept(active), "mine\n");
  for (const claim of slow) {
    await life.untilGone(claim);
    assert.ok(await archiveOf(life, claim));
  }
});

test("a claim that arrives while its tenant's release hangs gets what that release saves", async ({ life, faults }) => {
  const [claim, digest] = await fillClaim(life, "returns", "keeps");
  await life.deleteClaim(claim);
  await faults.untilSaving("returns");
  await faults.freezeHelper();
  // Its name is another, as with kubectl: the one that the REST API uses is taken until the release is done.
  const next = await life.createClaim("returns", "keeps", true, "returns-again");
  await life.claim("meanwhile", "keeps", false);
  assert.equal(await faults.podsOf(next), [], "it waits");
  await faults.thawHelper();
  const active = await life.untilClaim(next, "to be Active", isActive);
  assert.is(active.status?.source, "cold+data");
  assert.is(await digestOfMany(life, active), digest);
});

test.run();
