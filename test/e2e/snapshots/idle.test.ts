// @limit 900
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { archiveOf } from "./faults.ts";
import { type Lifecycle, NAMESPACE, startLifecycle } from "./lifecycle.ts";
import { isActive } from "./many-bytes.ts";

const test = suite<{ life: Lifecycle }>("idle release and the files");
/** Long enough for a busy machine to do between two uses what a test does there. */
const IDLE_S = 10;
const PAUSE_MS = 300;

test.before(async (context) => {
  const { life } = Object.assign(context, { life: await startLifecycle(`e2e-idle-${process.pid}`) });
  await life.startOperator();
  for (const action of ["hibernate", "destroy"] as const) {
    await life.createWorkload(action, { idle: { timeoutSeconds: IDLE_S, action } });
    await life.createPool(action, action, 1);
  }
});
test.after(({ life }) => life.down());

/** Notes an activity now, as the edge does. */
async function use(life: Lifecycle, pod = ""): Promise<void> {
  const body = { metadata: { annotations: { [annotation.lastActivity]: new Date().toISOString() } } };
  await life.client.patch(pods, { namespace: NAMESPACE, name: pod }, { type: "merge", body });
}

test("hibernate: an idle claim is released by itself, its files saved", async ({ life }) => {
  const first = await life.claim("ann", "hibernate", true);
  await life.run(first.status?.instanceId, "echo slept > /data/file");
  await life.untilGone(first);
  const second = await life.claim("ann", "hibernate", true);
  assert.match(second.status?.source ?? "", /\+data$/);
  assert.is(await life.kept(second), "slept\n");
  await life.release(second);
});

test("activity puts the release off", async ({ life }) => {
  const claim = await life.claim("busy", "hibernate", true);
  const { instanceId } = claim.status ?? {};
  let uses = 0;
  for (const end = Date.now() + 1500 * IDLE_S; Date.now() < end; uses += 1) {
    await use(life, instanceId);
    assert.is((await life.find(claim))?.metadata.deletionTimestamp, undefined, `after ${uses} uses`);
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  assert.ok(isActive((await life.find(claim))?.status));
  await life.untilGone(claim);
});

test("destroy: an idle claim keeps nothing of its session, the older archive stays byte for byte", async ({ life }) => {
  const first = await life.claim("bob", "destroy", true);
  await life.run(first.status?.instanceId, "echo old > /data/file");
  await life.release(first);
  const before = archiveOf(life, first);
  assert.ok(before, "a release that was asked for saves");
  const second = await life.claim("bob", "destroy", true);
  assert.is(await life.kept(second), "old\n");
  await life.run(second.status?.instanceId, "echo new > /data/file");
  await life.untilGone(second);
  assert.equal(archiveOf(life, second), before);
  const third = await life.claim("bob", "destroy", true);
  assert.is(await life.kept(third), "old\n");
  await life.untilGone(third);
  assert.equal(archiveOf(life, third), before);
});

test("destroy: a claim that was used again after it was marked is saved when it is released", async ({ life }) => {
  const claim = await life.claim("carol", "destroy", true);
  const { instanceId } = claim.status ?? {};
  await life.killOperator();
  await use(life, instanceId);
  const { metadata } = await life.client.get(pods, { namespace: NAMESPACE, name: instanceId ?? "" });
  // As an operator does that is killed between the mark and the deletion.
  const idleSince = metadata.annotations?.[annotation.lastActivity];
  const body = { metadata: { annotations: { [annotation.discardIdleSince]: idleSince } } };
  await life.client.patch(claims, { namespace: NAMESPACE, name: claim.metadata.name }, { type: "merge", body });
  await life.run(instanceId, "echo worked > /data/file");
  await use(life, instanceId);
  await life.deleteClaim(claim);
  await life.startOperator();
  await life.untilGone(claim);
  const next = await life.claim("carol", "destroy", true);
  assert.is(await life.kept(next), "worked\n");
  await life.release(next);
});

test.run();
