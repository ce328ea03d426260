import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import type { Case } from "../../at-once.ts";
import { archiveOf } from "./faults.ts";
import type { LifeContext } from "./life-suite.ts";
import { type Lifecycle, NAMESPACE } from "./lifecycle.ts";

/** Long enough for a busy machine to do between two uses what a test does there. */
const IDLE_S = 15;

export async function prepareIdle(life: Lifecycle): Promise<void> {
  for (const action of ["hibernate", "destroy"] as const) {
    await life.createWorkload(action, { idle: { timeoutSeconds: IDLE_S, action } });
    await life.createPool(action, action, 1);
  }
}

/** Notes an activity now, as the edge does. */
async function use(life: Lifecycle, pod = ""): Promise<void> {
  const body = { metadata: { annotations: { [annotation.lastActivity]: new Date().toISOString() } } };
  await life.client.patch(pods, { namespace: NAMESPACE, name: pod }, { type: "merge", body });
}

async function hibernate({ life }: LifeContext): Promise<void> {
  const first = await life.claim("ann", "hibernate", true);
  await life.run(first.status?.instanceId, "echo slept > /data/file");
  await life.untilGone(first);
  const second = await life.claim("ann", "hibernate", true);
  assert.match(second.status?.source ?? "", /\+data$/);
  assert.is(await life.kept(second), "slept\n");
}

async function destroy({ life }: LifeContext): Promise<void> {
  const first = await life.claim("bob", "destroy", true);
  await life.run(first.status?.instanceId, "echo old > /data/file");
  await life.release(first);
  const before = await archiveOf(life, first);
  assert.ok(before, "a release that was asked for saves");
  const second = await life.claim("bob", "destroy", true);
  assert.is(await life.kept(second), "old\n");
  await life.run(second.status?.instanceId, "echo new > /data/file");
  await life.untilGone(second);
  assert.equal(await archiveOf(life, second), before);
  const third = await life.claim("bob", "destroy", true);
  assert.is(await life.kept(third), "old\n");
}

export const idleCases: readonly Case<LifeContext>[] = [
  ["hibernate: an idle claim is released by itself, its files saved", hibernate],
  ["destroy: an idle claim keeps nothing of its session, the older archive stays byte for byte", destroy],
];

/** Nothing of {@link idleCases} may be under way: it kills the operator. */
export async function saveWhatWasUsedAgain({ life }: LifeContext): Promise<void> {
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
}
