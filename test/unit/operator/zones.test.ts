import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { nodes, pods } from "../../../crds/client/built-in-resources.ts";
import { claims, pools, workloads } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, claimLabels, finalizer, label } from "../../../crds/labels.ts";
import type { Workload } from "../../../crds/workload.ts";
import { createClaimController } from "../../../operator/claim/controller.ts";
import { isolationHash, templateHash } from "../../../operator/pod/render-pod.ts";
import { ZONE } from "../../../operator/pod/scheduling.ts";
import { createPoolController } from "../../../operator/pool/controller.ts";
import { type TestOperator, testOperator } from "./test-operator.ts";
import { running, unprobedPod } from "./unprobed-program.ts";

const test = suite("zones");

const workload: Workload = {
  metadata: { name: "w", namespace: "n", generation: 1 },
  spec: { image: { ref: "i" }, health: { httpGet: { path: "/" } } },
  status: { phase: "Ready", observedGeneration: 1 },
};

/** With a node in each of the zones, named as the zone. */
function operatorWith(zones: readonly string[], spec: Partial<Workload["spec"]> = {}): TestOperator {
  const operator = testOperator({ env: { TENANCY_WATCH_NODES: "on" } });
  for (const zone of zones) operator.api.add(nodes, { metadata: { name: zone, labels: { [ZONE]: zone } } });
  operator.api.add(workloads, { ...workload, spec: { ...workload.spec, ...spec } });
  return operator;
}

function addWarm(
  { api, context }: TestOperator,
  suffix: string,
  { node = suffix, labels = {}, template = "" } = {},
): void {
  const pod = unprobedPod(running, {
    ...{ name: `inst-pool-w-${suffix}`, uid: suffix },
    labels: {
      ...{ [label.managed]: "true", [label.workload]: "w", [label.pool]: "p", [label.poolStatus]: "ready" },
      ...labels,
    },
    annotations: {
      [annotation.templateHash]: template || (templateHash(workload, context.config) ?? ""),
      [annotation.isolation]: isolationHash(workload, context.config) ?? "",
    },
  });
  const containers = pod.spec.containers.map((one) => ({ ...one, readinessProbe: { httpGet: { port: 80 } } }));
  api.add(pods, { ...pod, spec: { ...pod.spec, containers, nodeName: node } });
}

/** The claim once it is Active, or cannot become so by itself. */
async function claimed({ api, context }: TestOperator, tenantId: string, zone?: string): Promise<Claim> {
  const spec = { tenantId, workloadRef: "w", ...(zone !== undefined && { zone }) };
  const labels = claimLabels(spec);
  api.add(claims, { metadata: { name: tenantId, uid: tenantId, finalizers: [finalizer.release], labels }, spec });
  const { reconcile } = createClaimController(context);
  for (let run = 0; run < 4; run += 1) await reconcile(`n/${tenantId}`, { signal: new AbortController().signal });
  return api.read(claims, tenantId);
}

function createdBy({ api }: TestOperator): Pod[] {
  return api.calls.filter(({ verb, kind }) => verb === "create" && kind === "pods").map(({ body }) => body as Pod);
}

const readyOf = ({ status }: Claim) => status?.conditions?.find(({ type }) => type === "Ready")?.message ?? "";

test("a claim takes a warm pod of the zone that it prefers, and says in which zone it is", async () => {
  const operator = operatorWith(["a", "b"]);
  for (const zone of ["a", "b"]) addWarm(operator, zone);
  const claim = await claimed(operator, "t", "b");
  assert.equal([claim.status?.phase, claim.status?.source, claim.status?.zone], ["Active", "pool", "b"]);
  assert.is(claim.status?.instanceId, "inst-pool-w-b");
  assert.match(readyOf(claim), / in zone b$/);
  // As many requests as for any claim: the pod and the status.
  const asked = operator.api.calls.filter(({ verb }) => verb !== "get").map(({ verb, kind }) => `${verb} ${kind}`);
  assert.equal(asked, ["patch pods", "patch tenancyclaims"]);
});

test("without a warm pod in its zone a claim takes another one at once, and without a zone the oldest", async () => {
  const operator = operatorWith(["a", "b"]);
  for (const zone of ["a", "b"]) addWarm(operator, zone);
  const elsewhere = await claimed(operator, "t", "c");
  assert.equal([elsewhere.status?.phase, elsewhere.status?.source, elsewhere.status?.zone], ["Active", "pool", "a"]);
  assert.match(readyOf(elsewhere), / in zone a, and not in zone c, which the claim prefers$/);
  const anywhere = await claimed(operator, "u");
  assert.equal([anywhere.status?.source, anywhere.status?.zone], ["pool", "b"]);
  assert.match(readyOf(anywhere), /\)$/);
});

test("a pod of the newest template in another zone comes before an older one in the zone", async () => {
  const operator = operatorWith(["a", "b"]);
  addWarm(operator, "b", { template: "older" });
  addWarm(operator, "a");
  assert.equal(
    [(await claimed(operator, "t", "b")).status?.zone, (await claimed(operator, "u", "b")).status?.zone],
    ["a", "b"],
  );
});

test("nodes that are not watched are in the zone that the API server wrote on their pods, or in an unknown one", async () => {
  const operator = testOperator();
  operator.api.add(workloads, workload);
  for (const name of ["a", "b"]) addWarm(operator, name, { labels: { [ZONE]: name } });
  assert.is((await claimed(operator, "t", "b")).status?.zone, "b");
  addWarm(operator, "c");
  assert.is((await claimed(operator, "u", "c")).status?.zone, "a");
  const unknown = await claimed(operator, "v", "c");
  assert.equal([unknown.status?.phase, unknown.status?.zone], ["Active", undefined]);
  assert.match(
    readyOf(unknown),
    /its zone is not known, since its node has no label for it, or the operator does not watch/,
  );
});

test("a cold pod of a claim prefers its zone, beside what its workload prefers", async () => {
  const own = { weight: 1, preference: { matchExpressions: [{ key: "disk", operator: "Exists" as const }] } };
  const required = { nodeSelectorTerms: [{ matchExpressions: [{ key: "gpu", operator: "Exists" as const }] }] };
  const operator = operatorWith(["a"], {
    scheduling: {
      affinity: {
        nodeAffinity: {
          preferredDuringSchedulingIgnoredDuringExecution: [own],
          requiredDuringSchedulingIgnoredDuringExecution: required,
        },
        podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] },
      },
    },
  });
  await claimed(operator, "t", "b");
  await claimed(operator, "u");
  const [near, plain] = createdBy(operator);
  const { affinity, topologySpreadConstraints } = near?.spec ?? {};
  assert.equal(affinity?.nodeAffinity, {
    requiredDuringSchedulingIgnoredDuringExecution: required,
    preferredDuringSchedulingIgnoredDuringExecution: [
      own,
      { weight: 100, preference: { matchExpressions: [{ key: ZONE, operator: "In", values: ["b"] }] } },
    ],
  });
  assert.ok(affinity?.podAntiAffinity);
  assert.is(topologySpreadConstraints, undefined);
  assert.equal(plain?.spec.affinity?.nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution, [own]);
});

/** What spreads the pods that a pool starts, and their template. */
async function spreadOf(operator: TestOperator): Promise<{ keys: unknown; template: string | undefined }> {
  operator.api.add(pools, { metadata: { name: "p" }, spec: { workloadRef: "w", size: 1 } });
  await createPoolController(operator.context).reconcile("n/p", { signal: new AbortController().signal });
  const [pod] = createdBy(operator);
  const keys = pod?.spec.topologySpreadConstraints?.map(({ topologyKey, whenUnsatisfiable, labelSelector }) => {
    assert.is(whenUnsatisfiable, "ScheduleAnyway");
    assert.equal(labelSelector, { matchLabels: { [label.pool]: "p" } });
    return topologyKey;
  });
  return { keys, template: pod?.metadata.annotations?.[annotation.templateHash] };
}

test("warm pods are spread over zones and nodes, which is no part of their template", async () => {
  const operator = operatorWith(["a"]);
  const { keys, template } = await spreadOf(operator);
  assert.equal(keys, [ZONE, "kubernetes.io/hostname"]);
  assert.is(template, templateHash(workload, operator.context.config));
});

test("without zones, warm pods are spread over nodes alone: a spread over zones would leave all nodes out", async () => {
  assert.equal((await spreadOf(operatorWith([]))).keys, ["kubernetes.io/hostname"]);
});

test("a pod that says its zone shows that there are zones", async () => {
  const operator = testOperator();
  operator.api.add(workloads, workload);
  addWarm(operator, "a", { labels: { [ZONE]: "a", [label.pool]: "other" } });
  assert.equal((await spreadOf(operator)).keys, [ZONE, "kubernetes.io/hostname"]);
});

for (const [says, scheduling] of Object.entries<NonNullable<Workload["spec"]["scheduling"]>>({
  "that it is not spread": { topologySpreadConstraints: [] },
  "which pods are near": { affinity: { podAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } } },
  "which pods are away": { affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } } },
})) {
  test(`a workload that says ${says} has warm pods where it says`, async () => {
    assert.equal((await spreadOf(operatorWith(["a"], { scheduling }))).keys, scheduling.topologySpreadConstraints);
  });
}

test.run();
