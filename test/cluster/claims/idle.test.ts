// @waits
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { answerCache, createCluster } from "../../../crds/client/cluster.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import type { ClaimContext, SeenUses } from "../../../operator/claim/context.ts";
import { releaseWhenIdle } from "../../../operator/claim/release-when-idle.ts";
import { pause } from "../../../scripts/cluster/process/wait-until.ts";
import { testAtOnce } from "../../at-once.ts";
import { silentLog } from "../../unit/silent-log.ts";
import { type RestEdge, startRestEdge } from "../rest/rest-edge.ts";
import { recordSaves } from "../snapshots/recorded-saves.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("idle release");
let tenancy: Tenancy;
let operator: RunningOperator;
let edge: RestEdge;

test.before(async () => {
  tenancy = await startTenancy("test-idle");
  operator = tenancy.startOperator();
  await tenancy.createWorkload("brief", { idle: { timeoutSeconds: 2 } });
  await tenancy.createWorkload("used", { idle: { timeoutSeconds: 10 } });
  await tenancy.createWorkload("patient", { idle: { timeoutSeconds: 3_000_000 } });
  await tenancy.createWorkload("endless");
  edge = await startRestEdge("bun", { KUBECONFIG: tenancy.cluster.kubeconfigPath });
});
test.after(async () => {
  await edge?.stop();
  await tenancy?.stop();
});

/** The API server's deletion time is in whole seconds. */
const deletionTime = ({ metadata }: Claim): number => Date.parse(metadata.deletionTimestamp ?? "");
const untilDeleted = (name: string) =>
  tenancy.untilClaim(name, (claim) => claim?.metadata.deletionTimestamp !== undefined);

async function unused(): Promise<void> {
  for (const workload of ["endless", "patient", "brief"]) await tenancy.createClaim("carol", workload);
  // Each for itself: one that is slow must not outlast the idle time of another.
  const [active] = await Promise.all([
    tenancy.untilClaim("claim-carol-brief", { phase: "Active" }),
    tenancy.untilClaim("claim-carol-endless", { phase: "Active" }),
    tenancy.untilClaim("claim-carol-patient", { phase: "Active" }),
  ]);
  await operator.stop();
  operator = tenancy.startOperator();
  const heldMs = deletionTime(await untilDeleted("claim-carol-brief")) - Date.parse(active.status?.claimedAt ?? "");
  assert.ok(heldMs > 1000, `released after ${heldMs} ms`);
  await tenancy.untilGone("claim-carol-brief");
  assert.equal(tenancy.phases.get("claim-carol-brief")?.slice(-3), ["Releasing", "Released", "(gone)"]);
  for (const workload of ["endless", "patient"]) {
    const claim = tenancy.claims.store.get(`${NAMESPACE}/claim-carol-${workload}`);
    assert.equal([claim?.status?.phase, claim?.metadata.deletionTimestamp], ["Active", undefined]);
  }
}

async function used(): Promise<void> {
  const claim = async (): Promise<string> => {
    const call = { path: "/api/v1/tenants/ivy/claim", body: { workload: "used" } };
    const { status, json, text } = await edge.call("POST /api/v1/tenants/{id}/claim", call);
    assert.is(status, 201, text);
    return (json as { instanceId: string }).instanceId;
  };
  const instance = await claim();
  const from = Date.now();
  const lastActivity = async (): Promise<number> => {
    const { metadata } = await tenancy.client.get(pods, { namespace: NAMESPACE, name: instance });
    return Date.parse(metadata.annotations?.[annotation.lastActivity] ?? "");
  };
  let count = 0;
  // Used until after the end of its first idle time.
  await tenancy.until("a use after its idle time", async () => {
    if (count % 2 === 0) assert.is(await claim(), instance);
    else await edge.call("POST /api/v1/instances/{id}/activity", { path: `/api/v1/instances/${instance}/activity` });
    count += 1;
    await pause(200);
    return (await lastActivity()) > from + 11_000;
  });
  const last = await lastActivity();
  const idleMs = deletionTime(await untilDeleted("claim-ivy-used")) - last;
  assert.ok(idleMs > 9000, `${idleMs} ms`);
  await tenancy.untilGone("claim-ivy-used");
}

testAtOnce(test, [
  [
    "a claim that nobody uses is released after its time, by a successor too; one of weeks or without a time stays",
    unused,
  ],
  ["a claim that is used stays, and is released once nobody uses it", used],
]);

/** Makes an Active claim and leaves no operator, as if the claim had been made at some time. */
async function claimedAt(tenantId: string, workload: string, time: number): Promise<{ claim: Claim; pod: Pod }> {
  const { metadata } = await tenancy.createClaim(tenantId, workload);
  const { name } = metadata;
  const { status } = await tenancy.untilClaim(name, { phase: "Active" });
  await operator.stop();
  const body = { status: { claimedAt: new Date(time).toISOString() } };
  const ref = { namespace: NAMESPACE, name };
  const claim = await tenancy.client.patch(claims, ref, { type: "merge", body, subresource: "status" });
  const pod = await tenancy.client.get(pods, { namespace: NAMESPACE, name: status?.instanceId ?? "" });
  return { claim, pod };
}

/** Has an operator look at a claim whose term began some time ago. @returns after how long it looks again */
async function look(
  { claim, pod }: { claim: Claim; pod: Pod },
  { termMs, seenUses }: { termMs: number; seenUses: SeenUses },
): Promise<number | undefined> {
  const { client } = tenancy;
  const caches = [answerCache(claims, tenancy.claims), answerCache(pods, tenancy.pods)];
  const cluster = createCluster({ client, namespace: NAMESPACE, fieldManager: "test", caches });
  const serverNow = client.transport.now;
  const memory = { seenUses, idleReleases: new Set<string>() };
  const context = { cluster, log: silentLog, ...memory, serverNow, startedAt: performance.now() - termMs };
  return (await releaseWhenIdle(claim, pod, context as unknown as ClaimContext))?.requeueAfterMs;
}

function age(seenUses: SeenUses, ms: number): void {
  for (const [uid, seen] of seenUses) seenUses.set(uid, { ...seen, since: seen.since - ms });
}

/** What an operator has seen that knows of no use of the pod for so long. */
async function seenUnused(found: { claim: Claim; pod: Pod }, ms: number): Promise<SeenUses> {
  const seenUses: SeenUses = new Map();
  await look(found, { termMs: 0, seenUses });
  age(seenUses, ms);
  return seenUses;
}

function usedAt({ claim, pod }: { claim: Claim; pod: Pod }, time: number): { claim: Claim; pod: Pod } {
  const annotations = { ...pod.metadata.annotations, [annotation.lastActivity]: new Date(time).toISOString() };
  return { claim, pod: { ...pod, metadata: { ...pod.metadata, annotations } } };
}

async function isReleased({ metadata }: Claim): Promise<boolean> {
  const { name } = metadata;
  return (await tenancy.client.get(claims, { namespace: NAMESPACE, name })).metadata.deletionTimestamp !== undefined;
}

test("activity that could not be written for longer than the idle time still counts, as after an API server's outage", async () => {
  const idleMs = 100_000;
  await tenancy.createWorkload("dozing", { idle: { timeoutSeconds: idleMs / 1000 } });
  const found = await claimedAt("dora", "dozing", Date.now() - idleMs - 500);
  const seenUses = await seenUnused(found, idleMs);
  // Edges have 10 s to find the API server again, and write activity every 10 s.
  const settlesMs = (await look(found, { termMs: 0, seenUses })) ?? 0;
  assert.ok(settlesMs > 10_000 && settlesMs <= 20_000, `${settlesMs} ms`);
  assert.not(await isReleased(found.claim));
  const body = {
    metadata: { annotations: { [annotation.lastActivity]: new Date(Date.now() - 60_000).toISOString() } },
  };
  const { name } = found.pod.metadata;
  await tenancy.client.patch(pods, { namespace: NAMESPACE, name }, { type: "merge", body });
  // The pod that it knows has no activity.
  assert.ok(((await look(found, { termMs: 20_000, seenUses })) ?? 0) > 0);
  assert.not(await isReleased(found.claim));

  const older = { metadata: { annotations: { [annotation.lastActivity]: null } } };
  await tenancy.client.patch(pods, { namespace: NAMESPACE, name }, { type: "merge", body: older });
  assert.is(await look(found, { termMs: 20_000, seenUses: await seenUnused(found, idleMs) }), undefined);
  assert.ok(await isReleased(found.claim));
});

test("a session that was used a moment ago is not released by clocks that differ", async () => {
  operator = tenancy.startOperator();
  const idleMs = 300_000;
  await tenancy.createWorkload("skewed", { idle: { timeoutSeconds: idleMs / 1000 } });
  // As of an edge that is 310 s behind, or an operator that is ahead.
  const found = await claimedAt("gus", "skewed", Date.now() - 310_000);
  const seenUses: SeenUses = new Map();
  const first = (await look(found, { termMs: 60_000, seenUses })) ?? 0;
  assert.ok(first > 290_000 && first <= idleMs, `${first} ms`);
  age(seenUses, 200_000);
  const second = (await look(usedAt(found, Date.now() - 309_000), { termMs: 60_000, seenUses })) ?? 0;
  assert.ok(second > 290_000 && second <= idleMs, `${second} ms`);
  // As of an edge that is ahead, whose session ends in time too.
  const third = (await look(usedAt(found, Date.now() + 3_600_000), { termMs: 60_000, seenUses })) ?? 0;
  assert.ok(third > 290_000 && third <= idleMs, `${third} ms`);
  assert.not(await isReleased(found.claim));
});

test("files are given up only where nobody has used the pod by the operator's own count too, whatever clocks say", async () => {
  const { snapshots, saved } = await recordSaves(tenancy);
  operator = tenancy.startOperator({ snapshots });
  const idleMs = 25_000;
  const idle = { timeoutSeconds: idleMs / 1000, action: "destroy" } as const;
  await tenancy.createWorkload("kept", { filesystem: { overlayDirs: ["/data"] }, idle });
  // As of edges and operators whose clocks are an hour behind.
  const found = await claimedAt("finn", "kept", Date.now() - 3_600_000);
  const seenUses: SeenUses = new Map();
  // An operator that went by the clock alone would release it now.
  const leftMs = (await look(found, { termMs: 60_000, seenUses })) ?? 0;
  assert.ok(leftMs > 0 && leftMs <= idleMs, `${leftMs} ms`);
  assert.not(await isReleased(found.claim));
  age(seenUses, idleMs);
  assert.is(await look(found, { termMs: 60_000, seenUses }), undefined);
  operator = tenancy.startOperator({ snapshots });
  await tenancy.untilGone(found.claim.metadata.name);
  assert.equal(saved, []);
});

test.run();
