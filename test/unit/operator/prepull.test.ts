import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import { networkPolicies, nodes, pods } from "../../../crds/client/built-in-resources.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { Node, Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import type { Workload } from "../../../crds/workload.ts";
import { createPrepullController } from "../../../operator/prepull/controller.ts";
import { fitsNode } from "../../../operator/prepull/node-fit.ts";
import { pullState } from "../../../operator/prepull/prepull-pod.ts";
import { manualClock } from "../manual-clock.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("prepull");

type Spec = Workload["spec"];
const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";
const status = { phase: "Ready" as const, observedGeneration: 1 };

function operatorWith(
  names: readonly string[],
  image: Partial<Spec["image"]> = {},
  env = { TENANCY_WATCH_NODES: "on" },
) {
  const clock = manualClock();
  const { api, context } = testOperator({ env, clock });
  for (const name of names) addNode(name);
  api.add(workloads, {
    metadata: { name: "w", generation: 1, uid: "w-uid" },
    spec: { image: { ref: "hello:1", prePull: true, ...image } },
    status,
  });
  const { reconcile, watches } = createPrepullController(context);
  for (const { informer, map } of watches)
    if (informer === context.informers.pods) informer.subscribe((change) => void map(change));
  function addNode(name: string, of: Partial<Node> = {}): void {
    api.add(nodes, { metadata: { name }, ...of });
  }
  const present = () => [...context.informers.pods.store.by("prepull", "w")];
  /** What the kubelet says of each pod that is there. */
  function kubelet(says: (pod: Pod) => Pod["status"]): void {
    for (const pod of present()) api.add(pods, { ...pod, status: says(pod) ?? {} });
  }
  return {
    ...{ api, context, clock, addNode, present, kubelet },
    run: () => reconcile("n/w", { signal: new AbortController().signal }),
    on: () => present().map(({ spec }) => spec.nodeName),
    images: () => api.read(workloads, "w").status?.images,
  };
}

const own = (state: object): Pod["status"] => ({
  phase: "Pending",
  containerStatuses: [{ name: "image", state, ready: false, restartCount: 0, image: "" }],
});
const pulled = () => own({ terminated: { exitCode: 0 } });
const failing = () => own({ waiting: { reason: "ImagePullBackOff", message: "no such image" } });

test("five nodes at a time pull the image, until all have it", async () => {
  const operator = operatorWith(Array.from({ length: 12 }, (_, index) => `node-${String.fromCharCode(97 + index)}`));
  let most = 0;
  for (let turn = 0; turn < 10 && operator.images()?.pulled !== 12; turn += 1) {
    await operator.run();
    most = Math.max(most, operator.present().length);
    operator.kubelet(pulled);
  }
  assert.is(most, 5);
  assert.equal(operator.present(), []);
  const { image, nodes, pulled: count, pulledOn, failed } = operator.images() ?? {};
  assert.equal([image, nodes, count, pulledOn?.length, failed], ["hello:1", 12, 12, 12, []]);
  const made = operator.api.calls.filter(({ verb, kind }) => verb === "create" && kind === "pods");
  assert.is(new Set(made.map(({ body }) => (body as Pod).spec.nodeName)).size, 12);
  assert.is(made.length, 12);
});

test("the pods are closed before the first one starts, hardened, and of no tenant and no pool", async () => {
  const operator = operatorWith(["a"], { pullSecrets: [{ name: "login" }] });
  await operator.run();
  assert.equal(
    operator.api.calls
      .filter(({ verb }) => verb !== "list")
      .map(({ verb, kind }) => `${verb} ${kind}`)
      .slice(0, 2),
    ["apply networkpolicies", "create pods"],
  );
  const { spec: closed } = operator.api.read(networkPolicies, "tenancy-prepull");
  assert.equal([closed.policyTypes, closed.ingress ?? [], closed.egress ?? []], [["Ingress", "Egress"], [], []]);
  const [pod] = operator.present();
  assert.equal(Object.keys(pod?.metadata.labels ?? {}), [label.prepull]);
  assert.equal(pod?.spec.imagePullSecrets, [{ name: "login" }]);
  assert.is(pod?.spec.automountServiceAccountToken, false);
  assert.is(pod?.spec.securityContext?.runAsNonRoot, true);
  assert.ok((pod?.spec.activeDeadlineSeconds ?? 0) > 0);
});

test("a node that has the image already gets no pod", async () => {
  const operator = operatorWith(["a"]);
  operator.addNode("b", { status: { images: [{ names: ["docker.io/library/hello:1"] }] } });
  await operator.run();
  assert.equal([operator.on(), operator.images()?.pulledOn], [["a"], ["b"]]);
});

test("an image without a name, which a node lists too, hides no other", async () => {
  const operator = operatorWith(["a"]);
  // As API servers answer.
  const names = null as unknown as string[];
  operator.addNode("b", { status: { images: [{ names }, { names: ["docker.io/library/hello:1"] }] } });
  await operator.run();
  assert.equal([operator.on(), operator.images()?.pulledOn], [["a"], ["b"]]);
});

test("a node where the pod was ended before the image was there has not pulled it", async () => {
  const operator = operatorWith(["a"]);
  await operator.run();
  const lost = { terminated: { exitCode: 137, reason: "ContainerStatusUnknown" } };
  operator.kubelet(() => ({ ...own(lost), phase: "Failed", reason: "DeadlineExceeded" }));
  await operator.run();
  assert.equal([operator.images()?.pulled, operator.images()?.failed[0]?.message], [0, "DeadlineExceeded"]);
});

test("a pod that is deleted from outside is a failure, and its node is looked at before another try", async () => {
  const operator = operatorWith(["a"]);
  await operator.run();
  const [pod] = operator.present();
  assert.ok(pod);
  operator.addNode("a", { spec: { taints: [{ key: "node.kubernetes.io/unschedulable", effect: "NoSchedule" }] } });
  operator.api.remove(pods, pod.metadata.name);
  await operator.run();
  assert.equal(operator.on(), []);
  operator.clock.set(operator.clock.now() + 30_000);
  await operator.run();
  assert.equal([operator.on(), operator.images()?.nodes], [[], 0]);
});

test("a new node pulls the image soon after it is ready, though only its status says so", async () => {
  const operator = operatorWith([]);
  operator.addNode("late", { spec: { taints: [{ key: "node.kubernetes.io/not-ready", effect: "NoSchedule" }] } });
  await operator.run();
  assert.equal(operator.on(), []);
  operator.addNode("late");
  operator.clock.set(operator.clock.now() + 15_000);
  await operator.run();
  assert.equal(operator.on(), ["late"]);
});

test("a node that was never tried comes before those that failed", async () => {
  const operator = operatorWith(["a", "b", "c", "d", "e", "z"]);
  await operator.run();
  operator.kubelet(failing);
  operator.clock.set(operator.clock.now() + 60_000);
  await operator.run();
  assert.ok(operator.on().includes("z"));
});

test("a node that cannot pull it says why, and is tried again after growing pauses", async () => {
  const operator = operatorWith(["a"]);
  await operator.run();
  operator.kubelet(failing);
  await operator.run();
  assert.equal(operator.images()?.failed, [{ node: "a", message: "no such image" }]);
  assert.equal(operator.on(), []);
  for (const pauseMs of [30_000, 60_000, 120_000]) {
    operator.clock.set(operator.clock.now() + pauseMs - 1);
    await operator.run();
    assert.equal(operator.on(), [], `before ${pauseMs} ms`);
    operator.clock.set(operator.clock.now() + 1);
    await operator.run();
    assert.equal(operator.on(), ["a"]);
    operator.kubelet(failing);
    await operator.run();
  }
  operator.clock.set(operator.clock.now() + 3_600_000);
  await operator.run();
  operator.kubelet(pulled);
  await operator.run();
  assert.equal([operator.images()?.pulled, operator.images()?.failed], [1, []]);
});

test("a refused pod is a failure of its node, and the others wait for the next try", async () => {
  const operator = operatorWith(["a", "b"]);
  operator.api.onNext("create", new ApiError("exceeded quota: tenancy", { status: 403, reason: "Forbidden" }), pods);
  await operator.run();
  assert.equal(operator.images()?.failed, [{ node: "a", message: "exceeded quota: tenancy" }]);
});

test("a node that does not answer is given up after the limit", async () => {
  const operator = operatorWith(["a"]);
  await operator.run();
  operator.context.serverNow = () => operator.api.now() + 961_000;
  await operator.run();
  assert.match(operator.images()?.failed[0]?.message ?? "", "did not pull it within 900 s");
});

test("another image is pulled on all nodes, and the pods of the former one are deleted", async () => {
  const operator = operatorWith(["a"]);
  await operator.run();
  operator.kubelet(pulled);
  await operator.run();
  const { metadata, spec } = operator.api.read(workloads, "w");
  operator.api.add(workloads, { metadata, spec: { ...spec, image: { ref: "hello:2", prePull: true } } });
  const { generation = 0 } = operator.api.read(workloads, "w").metadata;
  operator.api.add(workloads, {
    ...operator.api.read(workloads, "w"),
    status: { ...status, observedGeneration: generation },
  });
  await operator.run();
  assert.equal(
    operator.present().map(({ spec }) => spec.containers[0]?.image),
    ["hello:2"],
  );
});

test("a new node pulls it too", async () => {
  const operator = operatorWith(["a"]);
  await operator.run();
  operator.kubelet(pulled);
  await operator.run();
  operator.addNode("b");
  const watches = createPrepullController(operator.context).watches;
  const [added] = operator.context.informers.nodes?.store.values() ?? [];
  const ofNodes = watches.find(({ informer }) => informer === operator.context.informers.nodes);
  assert.equal([...(ofNodes?.map({ type: "added", object: added as Node }) ?? [])], ["n/w"]);
  operator.clock.set(operator.clock.now() + 10_000);
  await operator.run();
  assert.equal(operator.on(), ["b"]);
});

for (const [why, image] of Object.entries<Partial<Spec["image"]>>({
  "that does not ask for it": { prePull: false },
  "whose image is never pulled": { pullPolicy: "Never" },
})) {
  test(`nothing is pulled for a workload ${why}, and what was begun ends`, async () => {
    const operator = operatorWith(["a"]);
    await operator.run();
    assert.is(operator.present().length, 1);
    const { spec, ...rest } = operator.api.read(workloads, "w");
    operator.api.add(workloads, { ...rest, spec: { ...spec, image: { ...spec.image, ...image } } });
    await operator.run();
    assert.equal([operator.present(), operator.images()], [[], undefined]);
  });
}

test("an operator that does not watch nodes says so", async () => {
  const operator = operatorWith([], {}, { TENANCY_WATCH_NODES: "off" });
  await operator.run();
  assert.match(operator.images()?.message ?? "", "TENANCY_WATCH_NODES");
});

test("an operator that may not list nodes says it in the API server's words, and looks again", async () => {
  const operator = operatorWith(["a"]);
  const words = 'nodes is forbidden: User "operator" cannot list resource "nodes"';
  operator.api.onNext("list", new ApiError(words, { status: 403, reason: "Forbidden" }), nodes);
  assert.equal(await operator.run(), { requeueAfterMs: 60_000 });
  assert.is(operator.images()?.message, words);
  operator.clock.set(operator.clock.now() + 60_000);
  await operator.run();
  assert.equal([operator.on(), operator.images()?.message], [["a"], undefined]);
});

test("pullState: the image is there once the kubelet makes the container, also if its start fails", () => {
  const stateOf = (state: object) =>
    pullState({ metadata: { name: "p" }, spec: { containers: [] }, status: own(state) ?? {} });
  for (const state of [
    { running: {} },
    { terminated: { exitCode: 128, reason: "StartError" } },
    { waiting: { reason: "CreateContainerError" } },
  ])
    assert.is(stateOf(state).state, "pulled");
  for (const reason of ["ContainerCreating", "PodInitializing", "ErrImagePull"])
    assert.is(stateOf({ waiting: { reason } }).state, "pulling");
  const evicted = pullState({
    metadata: { name: "p" },
    spec: { containers: [] },
    status: { phase: "Failed", reason: "Evicted" },
  });
  assert.equal(evicted, { state: "failed", message: "Evicted" });
});

test("fitsNode: labels, names and taints of nodes, as the scheduler reads them", () => {
  const node: Node = {
    metadata: { name: "n", labels: { pool: "gpu", memory: "16" } },
    spec: { taints: [{ key: "gpu", value: "yes", effect: "NoSchedule" }] },
  };
  const tolerations = [{ key: "gpu", operator: "Exists" as const }];
  const near = (...nodeSelectorTerms: object[]) => ({
    tolerations,
    affinity: { nodeAffinity: { [REQUIRED]: { nodeSelectorTerms } } },
  });
  const term = (key: string, operator: string, ...values: string[]) => ({
    matchExpressions: [{ key, operator, values }],
  });
  const fits: [boolean, Parameters<typeof fitsNode>[0]][] = [
    [true, { tolerations }],
    [false, {}],
    [true, { tolerations: [{ operator: "Exists" }] }],
    [true, { tolerations: [{ key: "gpu", value: "yes", effect: "NoSchedule" }] }],
    [false, { tolerations: [{ key: "gpu", value: "no" }] }],
    [false, { tolerations: [{ key: "gpu", operator: "Exists", effect: "NoExecute" }] }],
    [true, { tolerations, nodeSelector: { pool: "gpu" } }],
    [false, { tolerations, nodeSelector: { pool: "cpu" } }],
    [true, near(term("pool", "In", "cpu", "gpu"))],
    [false, near(term("pool", "NotIn", "gpu"))],
    [true, near(term("other", "NotIn", "a"))],
    [true, near(term("other", "Exists"), term("other", "DoesNotExist"))],
    [true, near(term("memory", "Gt", "8"))],
    [false, near(term("memory", "Lt", "8"))],
    [false, near(term("other", "Gt", "8"))],
    [true, near({ matchFields: [{ key: "metadata.name", operator: "In", values: ["n"] }] })],
    [false, near({})],
  ];
  for (const [expected, scheduled] of fits) assert.is(fitsNode(scheduled, node), expected, JSON.stringify(scheduled));
  const windows = { metadata: { name: "n", labels: { "kubernetes.io/os": "windows" } } };
  assert.is(fitsNode({}, windows), false);
});

test.run();
