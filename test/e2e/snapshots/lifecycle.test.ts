// @limit 900
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { idleProgram, type Lifecycle, startLifecycle } from "./lifecycle.ts";

const test = suite<{ life: Lifecycle }>("files over a release and the next claim");

test.before(async (context) => {
  context.life = await startLifecycle(`e2e-lifecycle-${process.pid}`);
  await context.life.startOperator();
});
test.after(({ life }) => life.down());

test("files come back into a cold pod before its program starts", async ({ life }) => {
  await life.createWorkload("lists", {
    entrypoint: idleProgram("ls -A /data > /data/.seen"),
  });
  const first = await life.claim("ann", "lists", true);
  assert.is(first.status?.source, "cold");
  assert.is(await life.run(first.status?.instanceId, "cat /data/.seen"), ".seen\n");
  await life.run(first.status?.instanceId, "mkdir /data/deep; echo hello > /data/deep/file; echo x > /data/top");
  await life.release(first);

  const second = await life.claim("ann", "lists", true);
  assert.is(second.status?.source, "cold+data");
  assert.is(await life.run(second.status?.instanceId, "cat /data/.seen"), ".seen\ndeep\ntop\n");
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
  const second = await life.claim("bob", "warm", true);
  assert.is(second.status?.source, "pool+data");
  assert.is(await life.run(second.status?.instanceId, "cat /data/file"), "kept\n");
  await life.release(second);
});

test.run();
