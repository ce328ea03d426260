// @waits
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { Program } from "../../../scripts/cluster/process/start-program.ts";
import { type SimulatedNodes, startSimulatedNodes } from "../../../scripts/cluster/simulated/simulated-node.ts";
import { startControllerManager } from "../controller-manager.ts";
import { recordSaves } from "../snapshots/recorded-saves.ts";
import { exists, NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("a node that is gone");
const nodeTimeoutMs = 10_000;
const filesystem = { overlayDirs: ["/data"] };
let tenancy: Tenancy;
let controllers: Program;
let saved: string[];
const running = new Set<SimulatedNodes>();
/** By the tenant: the claim as it was on the node that then goes. */
const before: Record<string, Claim> = {};

test.before(async () => {
  tenancy = await startTenancy("test-node-lost", { nodes: false });
  const doomed = await startNode("doomed");
  // What finds nodes not ready, and marks their pods.
  controllers = await startControllerManager(tenancy.cluster, {
    controllers: "nodelifecycle",
    flags: ["--node-monitor-period=1s", "--node-monitor-grace-period=40s"],
  });
  const recorder = await recordSaves(tenancy, ({ spec }) => {
    if (spec.nodeName === "doomed-1") throw new Error("its node cannot be reached");
  });
  saved = recorder.saved;
  tenancy.startOperator({ snapshots: recorder.snapshots, config: { nodeTimeoutMs } });
  await tenancy.createWorkload("app", { filesystem });
  for (const tenant of ["alice", "bob"]) {
    const { metadata } = await tenancy.createClaim(tenant, "app");
    before[tenant] = await tenancy.untilClaim(metadata.name, { phase: "Active" });
  }
  await stop(doomed);
  await startNode("healthy");
});
test.after(async () => {
  for (const nodes of running) await stop(nodes);
  if (controllers !== undefined) process.kill(controllers.identity.pid, "SIGTERM");
  await controllers?.exited;
  await tenancy?.stop();
});

async function startNode(nodePrefix: string): Promise<SimulatedNodes> {
  const { kubeconfigPath } = tenancy.cluster;
  const nodes = await startSimulatedNodes({ kubeconfigPath, nodes: 1, nodePrefix, onTrouble: () => undefined });
  running.add(nodes);
  return nodes;
}

/** Its pods and itself stay as they were: nobody beats its heart, and nobody answers for its pods. */
async function stop(nodes: SimulatedNodes): Promise<void> {
  running.delete(nodes);
  await nodes.stop();
}

test("a release that waits for it keeps the pod, says so, and ends without the files once the pod is deleted", async () => {
  const claim = before.bob as Claim;
  const { name } = claim.metadata;
  const pod = { namespace: NAMESPACE, name: claim.status?.instanceId ?? "" };
  await tenancy.deleteClaim(name);
  const failed = await tenancy.untilClaim(name, { phase: "ReleaseFailed" });
  assert.match(failed.status?.message ?? "", /its node cannot be reached/);
  assert.is((await tenancy.client.get(pods, pod)).metadata.deletionTimestamp, undefined);
  // As the taint manager does after five minutes.
  await tenancy.client.delete(pods, pod);
  await tenancy.untilGone(name);
  assert.ok(await exists(tenancy.client, pods, pod.name), "the pod is still there");
  assert.ok((await tenancy.eventsOf(claim.metadata.uid)).some(({ reason }) => reason === "NotSaved"));
  assert.equal(saved, []);
});

test("an Active claim goes on with a new pod, and its release saves that one and does not wait for the other", async () => {
  const claim = before.alice as Claim;
  const { name } = claim.metadata;
  const old = claim.status?.instanceId ?? "";
  const after = await tenancy.untilClaim(name, (found) => {
    return found?.status?.phase === "Active" && found.status.instanceId !== old;
  });
  await tenancy.until("an Event that names the node", async () =>
    (await tenancy.eventsOf(claim.metadata.uid)).some(
      ({ reason, message }) => reason === "PodLost" && message?.includes('node "doomed-1"'),
    ),
  );
  assert.equal(saved, []);
  await tenancy.deleteClaim(name);
  await tenancy.untilGone(name);
  assert.equal(saved, [after.status?.instanceId]);
  assert.ok(await exists(tenancy.client, pods, old), "the old pod is still there");
  assert.equal(tenancy.phases.get(name), ["Pending", "Active", "Pending", "Active", "Releasing", "Released", "(gone)"]);
});

test("a node that comes back ends its pods, and nothing of them is saved", async () => {
  await startNode("doomed");
  for (const { status } of Object.values(before))
    await tenancy.until("the pod gone", async () => !(await exists(tenancy.client, pods, status?.instanceId ?? "")));
  assert.is(saved.length, 1);
});

test.run();
