import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { pools } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { type SimulatedNodes, startSimulatedNodes } from "../../../scripts/cluster/simulated/simulated-node.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("a pool whose node is lost");
const SIZE = 6;
let tenancy: Tenancy;
let operator: RunningOperator;
const running = new Set<SimulatedNodes>();

test.before(async () => {
  tenancy = await startTenancy("test-pool-node-lost", { nodes: false });
  operator = tenancy.startOperator();
});
test.after(async () => {
  for (const nodes of running) await nodes.stop();
  await tenancy?.stop();
});

async function startNode(nodePrefix: string): Promise<SimulatedNodes> {
  const { kubeconfigPath } = tenancy.cluster;
  const nodes = await startSimulatedNodes({ kubeconfigPath, nodes: 1, nodePrefix, onTrouble: () => undefined });
  running.add(nodes);
  return nodes;
}

const readyMembers = () =>
  tenancy
    .members("p")
    .filter(({ status }) => status?.conditions?.some((one) => one.type === "Ready" && one.status === "True"));

/** As the node lifecycle controller does when a node's heartbeat fails: it changes nothing else. */
async function markUnready({ metadata: { name }, status }: Pod): Promise<void> {
  // The kubelet and the controller give whole seconds.
  const lastTransitionTime = new Date(Date.now() + 2000).toISOString().replace(/\.\d+/, "");
  const conditions = status?.conditions?.map((one) =>
    one.type === "Ready" ? { type: "Ready", status: "False", lastTransitionTime } : one,
  );
  const body = { status: { conditions } };
  await tenancy.client.patch(pods, { namespace: NAMESPACE, name }, { type: "merge", subresource: "status", body });
}

test("fills on another node at once, and is not called failing", async () => {
  const doomed = await startNode("doomed");
  await tenancy.createWorkload("app");
  await tenancy.createPool("p", { workloadRef: "app", size: SIZE, maxFillConcurrency: 2 });
  await tenancy.untilPool("p", ({ status }) => status?.phase === "Ready");
  const lost = tenancy.members("p");
  running.delete(doomed);
  await doomed.stop();
  await startNode("healthy");
  operator.requests.length = 0;
  await Promise.all(lost.map(markUnready));
  const seen = new Set<string>();
  await tenancy.until("ready pods on the other node", async () => {
    const { status } = await tenancy.client.get(pools, { namespace: NAMESPACE, name: "p" });
    seen.add(`${status?.phase} ${status?.reason}`);
    return readyMembers().length === SIZE && status?.phase === "Ready";
  });
  const writes = operator.requests.filter(
    ({ resource, verb }) => resource === "pods" && ["create", "delete"].includes(verb),
  );
  assert.equal(
    writes.slice(0, SIZE).map(({ verb }) => verb),
    Array(SIZE).fill("create"),
    "it waits for no deletion",
  );
  assert.ok(
    [...seen].every((one) => !one.startsWith("Degraded")),
    [...seen].join(),
  );
  const { status } = await tenancy.untilPool("p", (pool) => pool.status?.phase === "Ready");
  assert.equal(
    status?.conditions?.map((condition) => `${condition.type}=${condition.status}`),
    ["Ready=True", "Progressing=False", "Degraded=False"],
  );
});

test("the lost pods are deleted in the end, with one Event that names the node", async () => {
  await tenancy.until("no lost pods", () => tenancy.members("p").length === SIZE);
  const told = await tenancy.until("an Event", async () => {
    const found = (await tenancy.eventsOf("p")).filter(({ reason }) => reason !== "Created");
    return found.length > 0 && found;
  });
  assert.equal(
    told.map(({ reason, count }) => [reason, count]),
    [["PodLost", 1]],
  );
  assert.match(told[0]?.message ?? "", /^node "doomed-1" does not answer for pod "inst-pool-app-/);
});

test.run();
