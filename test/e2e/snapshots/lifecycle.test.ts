// @limit 900
import * as assert from "uvu/assert";
import { archiveOf } from "./faults.ts";
import { lifeSuite } from "./life-suite.ts";
import { idleProgram } from "./lifecycle.ts";

const digestOfData = "$b sha256sum /data/*";

const test = lifeSuite("files over a release and the next claim", { name: "lifecycle" });

/** Waits for what the program has written, which counts as ready before. */
const firstAct = "until [ -s /data/.seen ]; do $b usleep 50000; done; cat /data/.seen";

test("files come back into a cold pod before its program starts", async ({ life }) => {
  await life.createWorkload("lists", {
    entrypoint: idleProgram("ls -A /data > /data/.seen"),
  });
  const first = await life.claim("ann", "lists", true);
  assert.is(first.status?.source, "cold");
  assert.is(await life.run(first.status?.instanceId, firstAct), ".seen\n");
  await life.run(first.status?.instanceId, "mkdir /data/deep; echo hello > /data/deep/file; echo x > /data/top");
  await life.release(first);

  const second = await life.claim("ann", "lists", true);
  assert.is(second.status?.source, "cold+data");
  assert.is(await life.run(second.status?.instanceId, firstAct), ".seen\ndeep\ntop\n");
  assert.is(await life.run(second.status?.instanceId, "cat /data/deep/file"), "hello\n");
  await life.release(second);
});

test("files come back into a warm pod before the claim is Active", async ({ life }) => {
  await life.createWorkload("warm");
  await life.createPool("warm", "warm", 2);
  const first = await life.claim("bob", "warm", true);
  assert.is(first.status?.source, "pool");
  await life.run(first.status?.instanceId, "echo kept > /data/file");
  await life.release(first);
  await life.untilPool("warm", 1);
  const second = await life.claim("bob", "warm", true);
  assert.is(second.status?.source, "pool+data");
  assert.is(await life.run(second.status?.instanceId, "cat /data/file"), "kept\n");
  await life.release(second);
});

test("without resume the directories are empty, and the archive stays until a release replaces it", async ({
  life,
}) => {
  await life.keep("fresh", "warm", "old");
  await life.untilPool("warm", 1);
  const claim = await life.claim("fresh", "warm", false);
  assert.is(claim.status?.source, "pool");
  const before = archiveOf(life, claim);
  assert.is(await life.run(claim.status?.instanceId, "$b ls -A /data"), "");
  await life.run(claim.status?.instanceId, "echo new > /data/other");
  assert.equal(archiveOf(life, claim), before);
  await life.release(claim);
  const next = await life.claim("fresh", "warm", true);
  assert.is(await life.run(next.status?.instanceId, "$b ls -A /data; $b cat /data/other"), "other\nnew\n");
  await life.release(next);
});

test("tenants of one workload never see each other's files", async ({ life }) => {
  const tenants = ["t", "t.t", "T", "t_t", "t-t", "x".repeat(63)];
  for (let round = 0; round < 2; round += 1) {
    const held = await Promise.all(tenants.map((tenant) => life.claim(tenant, "warm", true)));
    for (const claim of held) {
      const { tenantId } = claim.spec;
      const seen = await life.run(claim.status?.instanceId, "$b ls -A /data; $b cat /data/* 2>/dev/null || :");
      assert.is(seen, round === 0 ? "" : `${tenantId}\nonly ${tenantId}\n`);
      await life.run(claim.status?.instanceId, `echo "only ${tenantId}" > "/data/${tenantId}"`);
    }
    await Promise.all(held.map(life.release));
  }
});

test("one MiB comes back into a warm pod", async ({ life }) => {
  const first = await life.claim("mib", "warm", false);
  await life.run(first.status?.instanceId, "$b dd if=/dev/urandom of=/data/file bs=1M count=1 2>/dev/null");
  const digest = await life.run(first.status?.instanceId, digestOfData);
  await life.release(first);
  const times: number[] = [];
  for (let count = 0; count < 5; count += 1) {
    await life.untilPool("warm", 2);
    const started = performance.now();
    const claim = await life.claim("mib", "warm", true);
    times.push(Math.round(performance.now() - started));
    assert.is(claim.status?.source, "pool+data");
    assert.is(await life.run(claim.status?.instanceId, digestOfData), digest);
    await life.release(claim);
  }
  console.log(
    `note: pool+data of 1 MiB, from the claim's creation to Active: ${times.sort((a, b) => a - b).join(", ")} ms`,
  );
});

test("a program that ends again and again: its files are saved while it runs", async ({ life }) => {
  const script = "while [ ! -e /data/end ]; do /bin/busybox sleep 0.2; done; /bin/busybox sleep 10; exit 1";
  await life.createWorkload("ends", { entrypoint: { cmd: "/bin/busybox", args: ["sh", "-c", script] } });
  const claim = await life.claim("dora", "ends", true);
  await life.run(claim.status?.instanceId, "echo kept > /data/file; : > /data/end");
  const looping = await life.untilClaim(claim, "to loop", (status) => status?.reason === "CrashLooping");
  assert.is(looping.status?.phase, "Active");
  await life.deleteClaim(claim);
  await life.untilClaim(claim, "to fail", (status) => status?.phase === "ReleaseFailed");
  await life.untilGone(claim);
  assert.ok(archiveOf(life, claim));
});

test.run();
