import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { nodes, pods } from "../../../crds/client/built-in-resources.ts";
import type { KubernetesObject, Node, Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import { defineResource } from "../../../crds/resource.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { ZONE } from "../../../operator/pod/scheduling.ts";
import { findBinaries, programPath } from "../../../scripts/cluster/binaries.ts";
import { schedulerFlags } from "../../../scripts/cluster/node/create-local-cluster.ts";
import { freePort } from "../../../scripts/cluster/process/free-port.ts";
import { type Program, startProgram } from "../../../scripts/cluster/process/start-program.ts";
import { stopProcess } from "../../../scripts/cluster/process/stop-process.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";
import { startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("on which nodes Kubernetes' own scheduler puts a workload's pods");
const priorityClasses = defineResource<KubernetesObject & { value: number }>({
  ...{ group: "scheduling.k8s.io", version: "v1", plural: "priorityclasses", kind: "PriorityClass" },
  namespaced: false,
});
const GPU = "example.com/gpu";
const gpu: Partial<WorkloadSpec> = {
  resources: { milliCpus: 2500, requests: { milliCpus: 100, memoryMb: 64 }, extended: { [GPU]: 1 } },
  scheduling: {
    nodeSelector: { pool: "gpu" },
    tolerations: [{ key: GPU, operator: "Exists", effect: "NoSchedule" }],
    priorityClassName: "tenants",
  },
};

let tenancy: Tenancy;
let scheduler: Program | undefined;

test.before(async () => {
  tenancy = await startTenancy("test-scheduling", { nodes: false });
  const { client, cluster } = tenancy;
  await client.create(priorityClasses, { metadata: { name: "tenants" }, value: 10 });
  await createNode("plain", { zone: "a" });
  await createNode("gpu", { zone: "b", pool: "gpu" }, { taint: GPU, extended: { [GPU]: "2" } });
  const name = "kube-scheduler";
  const binaries = await findBinaries({ need: [...CONTROL_PLANE_PROGRAMS, name] });
  const { kubeconfigPath, folder } = cluster;
  const { version } = binaries;
  scheduler = await startProgram({
    ...{ name, command: programPath(binaries, name), lifetime: "parent" },
    arguments: schedulerFlags({ version, folder, kubeconfigPath, port: await freePort() }),
    logPath: join(folder, "log", `${name}.log`),
  });
  tenancy.startOperator({ config: { watchNodes: true } });
});
test.after(async () => {
  if (scheduler !== undefined) await stopProcess(scheduler.identity, { name: scheduler.name });
  await tenancy?.stop();
});

async function createNode(
  name: string,
  labels: Record<string, string>,
  { taint, extended = {} }: { taint?: string; extended?: Record<string, string> } = {},
): Promise<void> {
  const room = { cpu: "40", memory: "40Gi", "ephemeral-storage": "40Gi", pods: "50", ...extended };
  await tenancy.client.create(nodes, {
    metadata: { name, labels: { "kubernetes.io/hostname": name, ...labels } },
    status: {
      ...{ capacity: room, allocatable: room },
      conditions: [{ type: "Ready", status: "True", reason: "Test", message: "" }],
    },
  } as Node);
  // A new node is tainted as not ready, until the controller manager sees that it is.
  const taints = taint === undefined ? [] : [{ key: taint, value: "yes", effect: "NoSchedule" }];
  await tenancy.client.patch(nodes, { name }, { type: "merge", body: { spec: { taints } } });
}

/** Nodes in zones for the workloads that tolerate them. The one in zone b has the least room. */
async function createZones(): Promise<Partial<WorkloadSpec>> {
  const taint = "example.com/zoned";
  for (const name of ["a-1", "a-2", "b-1"]) {
    const labels = { [ZONE]: name.slice(0, 1), zoned: "true" };
    await createNode(name, labels, { taint, extended: name === "b-1" ? { cpu: "8" } : {} });
  }
  return { scheduling: { nodeSelector: { zoned: "true" }, tolerations: [{ key: taint, operator: "Exists" }] } };
}

async function podOf(claim: Claim): Promise<Pod | undefined> {
  return (await tenancy.podsOf(claim))[0];
}

async function nodeOf(workload: string, tenant: string, zone?: string): Promise<string> {
  const claim = await tenancy.createClaim(tenant, workload, {}, zone === undefined ? {} : { zone });
  return tenancy.until(`a node for ${tenant}`, async () => (await podOf(claim))?.spec.nodeName);
}

/** What the claim's status says while no node takes its pod. */
async function refusalOf(workload: string, tenant: string): Promise<string> {
  const { metadata } = await tenancy.createClaim(tenant, workload);
  const { status } = await tenancy.untilClaim(metadata.name, { reason: "Unschedulable" });
  return status?.message ?? "";
}

test("cold and warm pods go to the tainted node that has what they ask for, and no other pods do", async () => {
  await tenancy.createWorkload("gpu", gpu);
  await tenancy.createWorkload("plain");
  for (const tenant of ["a", "b", "c"]) assert.is(await nodeOf("plain", tenant), "plain");
  const claim = await tenancy.createClaim("a", "gpu");
  const pod = await tenancy.until("a pod on a node", async () => {
    const found = await podOf(claim);
    return found?.spec.nodeName !== undefined && found;
  });
  assert.is(pod.spec.nodeName, "gpu");
  assert.equal([pod.spec.priorityClassName, pod.spec.priority], ["tenants", 10]);
  const { limits, requests } = pod.spec.containers[0]?.resources ?? {};
  assert.equal([limits?.cpu, limits?.memory, limits?.[GPU]], ["2500m", "512Mi", "1"]);
  assert.equal([requests?.cpu, requests?.memory, requests?.[GPU]], ["100m", "64Mi", "1"]);
  await tenancy.createPool("gpu", { workloadRef: "gpu", size: 1 });
  await tenancy.until("a warm pod on the node", () => tenancy.members("gpu")[0]?.spec.nodeName === "gpu");
});

test("a claim that no node fits says why, and which fields of the workload choose nodes", async () => {
  // The node has two, and the test before has taken both.
  const full = await refusalOf("gpu", "late");
  assert.match(
    full,
    /Insufficient example\.com\/gpu.*the pod asks for 1 example\.com\/gpu by spec\.resources\.extended/,
  );
  assert.match(full, /choose nodes: .*spec\.scheduling\.nodeSelector and affinity\.nodeAffinity/);
  await tenancy.createWorkload("untolerated", { scheduling: { nodeSelector: { pool: "gpu" } } });
  const tainted = await refusalOf("untolerated", "a");
  assert.match(tainted, /1 node\(s\) had untolerated taint.*spec\.scheduling\.tolerations/);
});

test("pods of a workload keep away from one another, and not from those of another workload", async () => {
  const term = { topologyKey: "kubernetes.io/hostname" };
  const scheduling = {
    nodeSelector: { zone: "a" },
    affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [term] } },
  };
  for (const name of ["alone", "alone-too"]) await tenancy.createWorkload(name, { scheduling });
  for (const name of ["alone", "alone-too"]) assert.is(await nodeOf(name, "a"), "plain");
  assert.match(await refusalOf("alone", "b"), /pod anti-affinity rules.*spec\.scheduling\.affinity/);
});

test("pods are spread, and only the workload's own count", async () => {
  await tenancy.createWorkload("spread", {
    scheduling: {
      tolerations: [{ key: GPU, operator: "Exists" }],
      topologySpreadConstraints: [{ maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "DoNotSchedule" }],
    },
  });
  // On the node in zone a there are many pods by now.
  const taken = [await nodeOf("spread", "a"), await nodeOf("spread", "b")];
  assert.equal(taken.sort(), ["gpu", "plain"]);
});

test("warm pods are spread over zones and nodes, and a claim's cold pod goes to the zone that it prefers", async () => {
  const zoned = await createZones();
  await tenancy.createWorkload("zoned", zoned);
  await tenancy.createPool("zoned", { workloadRef: "zoned", size: 4 });
  const taken = await tenancy.until("a node for each warm pod", () => {
    const found = tenancy.members("zoned").flatMap(({ spec }) => spec.nodeName ?? []);
    return found.length === 4 && found;
  });
  assert.equal(taken.sort(), ["a-1", "a-2", "b-1", "b-1"]);

  await tenancy.createWorkload("cold", zoned);
  // One without a zone shows where the scheduler would put it.
  assert.match(await nodeOf("cold", "anywhere"), /^a-/);
  assert.is(await nodeOf("cold", "b", "b"), "b-1");
  assert.match(await nodeOf("cold", "a", "a"), /^a-/);
  assert.match(await nodeOf("cold", "nowhere", "c"), /^[ab]-/);
});

test("a scheduler that does not run, and a priority class that does not exist, are named", async () => {
  await tenancy.createWorkload("unplanned", { scheduling: { schedulerName: "absent" } });
  const waiting = await tenancy.createClaim("a", "unplanned");
  const said = await tenancy.untilClaim(waiting.metadata.name, (claim) => claim?.status?.message !== undefined);
  assert.match(
    said.status?.message ?? "",
    /no scheduler named "absent" has taken the pod.*spec\.scheduling\.schedulerName/,
  );
  await tenancy.createWorkload("unranked", { scheduling: { priorityClassName: "absent" } });
  const refused = await tenancy.createClaim("a", "unranked");
  const { status } = await tenancy.untilClaim(refused.metadata.name, { phase: "Error" });
  assert.match(status?.message ?? "", /no PriorityClass with name absent.*spec\.scheduling\.priorityClassName/);
});

test("a selector that names another workload matches no pod", async () => {
  await tenancy.createWorkload("near", {
    scheduling: {
      affinity: {
        podAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: [
            { topologyKey: "zone", labelSelector: { matchLabels: { [label.workload]: "plain" } } },
          ],
        },
      },
    },
  });
  assert.match(await refusalOf("near", "a"), /pod affinity rules/);
});

test("on a full node warm pods end for a claim's pod, as few as it needs, and the pool waits until it has its node", async () => {
  const taint = "example.com/small";
  await createNode("small", { small: "true" }, { taint, extended: { cpu: "4" } });
  const scheduling: WorkloadSpec["scheduling"] = {
    nodeSelector: { small: "true" },
    tolerations: [{ key: taint, operator: "Exists" }],
  };
  await tenancy.createWorkload("spare", { resources: { vcpus: 1 }, scheduling });
  await tenancy.createWorkload("wide", { resources: { vcpus: 2 }, scheduling });
  await tenancy.createPool("spare", { workloadRef: "spare", size: 4 });
  const onNode = () => tenancy.members("spare").filter(({ spec }) => spec.nodeName === "small");
  await tenancy.until("four warm pods on the node", () => onNode().length === 4);
  const before = { spare: namesOf(onNode()), zoned: namesOf(tenancy.members("zoned")) };
  const ended: string[] = [];
  const stopEnding = tenancy.onPodChange(() => void endPods(ended));
  assert.is(await nodeOf("wide", "a"), "small");
  stopEnding();
  assert.equal(ended.length, 2, ended.join());
  assert.equal(
    namesOf(onNode()),
    before.spare.filter((name) => !ended.includes(name)),
  );
  assert.equal(namesOf(tenancy.members("zoned")), before.zoned);
  await tenancy.until("the pool to ask for its pods again", () => tenancy.members("spare").length === 4);
});

const namesOf = (pods: readonly Pod[]) => pods.map(({ metadata }) => metadata.name).sort();

/** Does a kubelet's part, which does not run here: removes the pods of the small node that are being deleted. */
async function endPods(ended: string[]): Promise<void> {
  for (const { metadata, spec } of [...tenancy.pods.store.values()]) {
    if (spec.nodeName !== "small" || metadata.deletionTimestamp === undefined || ended.includes(metadata.name))
      continue;
    ended.push(metadata.name);
    await tenancy.client.delete(pods, metadata, { gracePeriodSeconds: 0 });
  }
}

test.run();
