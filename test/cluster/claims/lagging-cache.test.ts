import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { networkPolicies, pods } from "../../../crds/client/built-in-resources.ts";
import { claims, workloads } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { policyName } from "../../../crds/names.ts";
import type { Snapshots } from "../../../operator/snapshots/snapshots.ts";
import { heldBack } from "../held-back.ts";
import { recordSaves } from "../snapshots/recorded-saves.ts";
import { exists, NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";
import { createWatchGate, type WatchGate } from "../watch-gate.ts";

const test = suite("a leader whose watches lag behind each other");
const filesystem = { overlayDirs: ["/data"] };
let tenancy: Tenancy;
let marks = 0;
/** Names of the pods whose files were saved. */
let saved: string[];
let snapshots: Snapshots;
const operators = new Set<RunningOperator>();
const gates = new Set<WatchGate>();

function start(identity: string, gate?: WatchGate): RunningOperator {
  if (gate !== undefined) gates.add(gate);
  const operator = tenancy.startOperator({ identity, snapshots, ...(gate !== undefined && { wrap: gate.wrap }) });
  operators.add(operator);
  return operator;
}

test.before(async () => {
  tenancy = await startTenancy("test-lagging-cache");
  ({ snapshots, saved } = await recordSaves(tenancy));
});
test.before.each(() => {
  saved.length = 0;
});
// Also after a failure: the next test's operator needs the lease.
test.after.each(async () => {
  for (const gate of gates) gate.letGo();
  for (const operator of operators) await operator.stop();
  operators.clear();
});
test.after(() => tenancy?.stop());

/**
 * Runs `before` under one leader, then `meanwhile`, of which the next one's watches of the held kinds tell nothing.
 * When this returns, the next one leads and has looked at every claim.
 */
async function handOver<T>(steps: {
  before: () => Promise<T>;
  held: string[];
  meanwhile: (known: T) => Promise<void>;
}): Promise<{ known: T; gate: WatchGate }> {
  const first = start("first");
  await tenancy.until("first leads", async () => (await tenancy.leader()) === "first");
  const known = await steps.before();
  const gate = createWatchGate();
  const successor = start("successor", gate);
  await successor.synced;
  gate.hold(...steps.held);
  await steps.meanwhile(known);
  await first.stop();
  operators.delete(first);
  await tenancy.until("the successor leads", async () => (await tenancy.leader()) === "successor");
  await works();
  return { known, gate };
}

/** Until the leader has worked: claims go before workloads. */
async function works(): Promise<void> {
  marks += 1;
  const name = `mark-${marks}`;
  await tenancy.createWorkload(name);
  await tenancy.untilWorkload(name, ({ status }) => status?.phase === "Ready");
}

async function claimed(tenantId: string, workload: string): Promise<Claim> {
  const { metadata } = await tenancy.createClaim(tenantId, workload);
  return tenancy.untilClaim(metadata.name, { phase: "Active" });
}

async function livePods(claim: Claim): Promise<string[]> {
  const bound = await tenancy.podsOf(claim);
  return bound.filter(({ metadata }) => metadata.deletionTimestamp === undefined).map(({ metadata }) => metadata.name);
}

test("pods behind claims: the pod of an Active claim is not lost, and a release saves its files", async () => {
  const name = "claim-alice-pooled";
  const { gate } = await handOver({
    async before() {
      await tenancy.createWorkload("pooled", { filesystem });
      await tenancy.createPool("pooled", { workloadRef: "pooled", size: 1 });
      await tenancy.until("a warm pod", () => tenancy.members("pooled", "ready").length === 1);
    },
    held: ["pods"],
    async meanwhile() {
      await claimed("alice", "pooled");
    },
  });
  const claim = await tenancy.client.get(claims, { namespace: NAMESPACE, name });
  const instance = claim.status?.instanceId ?? "";
  assert.equal(tenancy.phases.get(name), ["Pending", "Active"], JSON.stringify(claim.status));
  assert.equal(await livePods(claim), [instance]);

  await tenancy.deleteClaim(claim.metadata.name);
  await tenancy.until("the files saved, or the claim gone", async () => {
    return saved.length > 0 || !(await exists(tenancy.client, claims, name));
  });
  gate.letGo();
  await tenancy.untilGone(name);
  assert.equal(saved, [instance]);
  assert.equal(tenancy.phases.get(name), ["Pending", "Active", "Releasing", "Released", "(gone)"]);
});

test("claims behind pods: the pod that a claim got after a loss is not deleted for the one before", async () => {
  const name = "claim-bob-cold";
  const { known, gate } = await handOver({
    async before() {
      await tenancy.createWorkload("cold", { filesystem });
      return claimed("bob", "cold");
    },
    held: ["tenancyclaims"],
    async meanwhile(lost) {
      await tenancy.client.delete(pods, { namespace: NAMESPACE, name: lost.status?.instanceId ?? "" });
      await tenancy.untilClaim(name, ({ status } = lost) => {
        return status?.phase === "Active" && status.instanceId !== lost.status?.instanceId;
      });
    },
  });
  const claim = await tenancy.client.get(claims, { namespace: NAMESPACE, name });
  assert.is.not(claim.status?.instanceId, known.status?.instanceId);
  assert.equal(await livePods(claim), [claim.status?.instanceId]);
  gate.letGo();
  await works();
  assert.equal(await livePods(claim), [claim.status?.instanceId]);
  assert.equal(tenancy.phases.get(name), ["Pending", "Active", "Pending", "Active"]);
});

test("claims behind pods: a pod whose claim no watch has shown stays, also when it bears another claim's name", async () => {
  const { gate } = await handOver({
    before: () => tenancy.createWorkload("held"),
    held: ["tenancyclaims"],
    async meanwhile() {
      const claim = await claimed("carol", "held");
      const body = { metadata: { annotations: { [annotation.claim]: "claim-another" } } };
      await tenancy.client.patch(
        pods,
        { namespace: NAMESPACE, name: claim.status?.instanceId ?? "" },
        { type: "merge", body },
      );
    },
  });
  const claim = await tenancy.client.get(claims, { namespace: NAMESPACE, name: "claim-carol-held" });
  assert.equal(await livePods(claim), [claim.status?.instanceId]);
  gate.letGo();
});

test("a pod under the name of one that was destroyed, as a leader makes it that is behind, is nobody's and never saved", async () => {
  const name = "claim-gina-again";
  start("first");
  await tenancy.createWorkload("again", { filesystem });
  const claim = await claimed("gina", "again");
  const instance = claim.status?.instanceId ?? "";
  const pod = await tenancy.client.get(pods, { namespace: NAMESPACE, name: instance });
  const body = { metadata: { annotations: { [annotation.destroyed]: instance } } };
  await tenancy.client.patch(claims, { namespace: NAMESPACE, name }, { type: "merge", body });
  await tenancy.client.delete(pods, { namespace: NAMESPACE, name: instance });
  await tenancy.until("the claim without a pod", async () => {
    const { status } = await tenancy.client.get(claims, { namespace: NAMESPACE, name });
    return status?.endpoint === undefined && (await tenancy.podsOf(claim)).length === 0;
  });

  const { labels = {}, annotations = {}, finalizers = [] } = pod.metadata;
  const { nodeName: _, ...spec } = pod.spec;
  const late = { metadata: { name: instance, namespace: NAMESPACE, labels, annotations, finalizers }, spec };
  const made = await tenancy.client.create(pods, late);
  await tenancy.until("the late pod to go", async () => {
    const { status } = await tenancy.client.get(claims, { namespace: NAMESPACE, name });
    assert.is(status?.endpoint, undefined, "its address is never the claim's");
    return (await tenancy.podsOf(claim)).every(({ metadata }) => metadata.uid !== made.metadata.uid);
  });
  await tenancy.deleteClaim(claim.metadata.name);
  await tenancy.untilGone(name);
  assert.equal(saved, []);
});

test("a workload that a claim and a pod use which no watch has shown keeps its policy when it is deleted", async () => {
  const workload = { namespace: NAMESPACE, name: "used" };
  const { gate } = await handOver({
    async before() {
      await tenancy.createWorkload("used");
      await tenancy.until("the workload Ready", async () => {
        return (await tenancy.client.get(workloads, workload)).status?.phase === "Ready";
      });
    },
    held: ["tenancyclaims", "pods"],
    async meanwhile() {
      await claimed("dora", "used");
    },
  });
  await tenancy.client.delete(workloads, workload);
  await tenancy.until("the workload held, or gone", async () => {
    if (!(await exists(tenancy.client, workloads, "used"))) return true;
    return (await tenancy.eventsOf("used")).some(({ reason }) => reason === "InUse");
  });
  assert.ok(await exists(tenancy.client, workloads, "used"));
  assert.ok(await exists(tenancy.client, networkPolicies, policyName("used")));
  gate.letGo();
});

test("a claim that is released for idleness keeps the files of a use that no watch has shown", async () => {
  const gate = createWatchGate();
  start("alone", gate);
  await tenancy.createWorkload("idle", { filesystem, idle: { timeoutSeconds: 3600, action: "destroy" } });
  const claim = await claimed("erin", "idle");
  const instance = { namespace: NAMESPACE, name: claim.status?.instanceId ?? "" };
  gate.hold("pods");
  const used = { [annotation.lastActivity]: new Date(Date.now() + 1000).toISOString() };
  await tenancy.client.patch(pods, instance, { type: "merge", body: { metadata: { annotations: used } } });
  const idle = { [annotation.discardIdleSince]: claim.status?.claimedAt };
  const { name } = claim.metadata;
  await tenancy.client.patch(
    claims,
    { namespace: NAMESPACE, name },
    { type: "merge", body: { metadata: { annotations: idle } } },
  );
  await tenancy.deleteClaim(claim.metadata.name);
  await tenancy.until("the pod deleted", async () => {
    return (await tenancy.podsOf(claim)).every(({ metadata }) => metadata.deletionTimestamp !== undefined);
  });
  gate.letGo();
  await tenancy.untilGone(name);
  assert.equal(saved, [instance.name]);
});

test("a term begins when every watch is open, and a watch that never opens does not keep the operator from stopping", async () => {
  await tenancy.createWorkload("calm");
  const gate = createWatchGate({ opening: true });
  gate.hold("pods");
  const blind = start("blind", gate);
  await tenancy.until("blind has the lease", async () => (await tenancy.leader()) === "blind");
  await tenancy.until("it has listed what there is", () => {
    const listed = (resource: string) =>
      blind.requests.some((one) => one.resource === resource && (one.verb === "watch" || resource === "pods"));
    return ["pods", "tenancyclaims", "tenancyworkloads", "tenancypools", "networkpolicies"].every(listed);
  });
  assert.not(blind.isReady());
  await blind.stop();
  operators.delete(blind);
  const made = blind.requests.filter(({ verb, resource }) => !isRead(verb) && resource !== "leases");
  assert.equal(made, []);

  const other = createWatchGate({ opening: true });
  other.hold("pods");
  start("seeing", other);
  await tenancy.until("it has the lease", async () => (await tenancy.leader()) === "seeing");
  const { metadata } = await tenancy.createClaim("fay", "calm");
  assert.is(tenancy.phases.get(metadata.name)?.at(-1) ?? "Pending", "Pending");
  other.letGo();
  await tenancy.untilClaim(metadata.name, { phase: "Active" });
});

test("a claim that is tried again right after its workload was mended gets the mended one, however late its watch is", async () => {
  const operator = tenancy.startOperator({ wrap: (client) => heldBack(client, "tenancyworkloads") });
  await tenancy.createWorkload("late", { image: { ref: "simulated/missing:1" } });
  await tenancy.untilWorkload("late", ({ status }) => status?.phase === "Ready");
  const { metadata } = await tenancy.createClaim("alice", "late");
  const failed = await tenancy.untilClaim(metadata.name, { phase: "Error" });
  assert.is(failed.status?.reason, "ImagePullFailed");
  await tenancy.until("no pod", async () => (await tenancy.podsOf(failed)).length === 0);

  const body = { spec: { image: { ref: "simulated/hello:1" } } };
  await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "late" }, { type: "merge", body });
  const again = { metadata: { annotations: { [annotation.attempt]: "2" } } };
  await tenancy.client.patch(claims, { namespace: NAMESPACE, name: metadata.name }, { type: "merge", body: again });
  const answered = await tenancy.untilClaim(metadata.name, (claim) => claim?.status?.attempt === "2");
  assert.is(answered.status?.phase, "Active", JSON.stringify(answered.status));
  const images = (await tenancy.podsOf(answered)).map(({ spec }) => spec.containers[0]?.image);
  assert.equal(images, ["simulated/hello:1"]);
  await operator.stop();
});

test("a claim on a workload that was just made anew is not failed for the one before, which the watch still shows", async () => {
  const operator = tenancy.startOperator({ wrap: (client) => heldBack(client, "tenancyworkloads") });
  await tenancy.createWorkload("renewed", { image: { ref: "simulated/hello:1" } });
  await tenancy.untilWorkload("renewed", ({ status }) => status?.phase === "Ready");
  await tenancy.client.delete(workloads, { namespace: NAMESPACE, name: "renewed" });
  await tenancy.until("the workload gone", async () => !(await exists(tenancy.client, workloads, "renewed")));
  await tenancy.createWorkload("renewed", { image: { ref: "simulated/hello:1" } });
  const { metadata } = await tenancy.createClaim("bob", "renewed");
  const claim = await tenancy.untilClaim(metadata.name, (one) =>
    ["Active", "Error"].includes(one?.status?.phase ?? ""),
  );
  assert.is(claim.status?.phase, "Active", JSON.stringify(claim.status));
  await operator.stop();
});

function isRead(verb: string): boolean {
  return ["get", "list", "watch"].includes(verb);
}

test.run();
