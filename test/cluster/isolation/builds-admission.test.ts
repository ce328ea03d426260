// @own-cluster
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { jobs, pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { Job, Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import type { Workload, WorkloadSpec } from "../../../crds/workload.ts";
import { renderBuildJob } from "../../../operator/builds/render-build.ts";
import { type BuildConfig, operatorConfig } from "../../../operator/config.ts";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { versionAtLeast } from "../../../scripts/cluster/kubernetes/version-at-least.ts";
import type { Program } from "../../../scripts/cluster/process/start-program.ts";
import { stopProcess } from "../../../scripts/cluster/process/stop-process.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";
import { eventually } from "../../eventually.ts";
import { startControllerManager } from "../controller-manager.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { type AccountClient, accountClient } from "./account-client.ts";
import { kubectlFor, validation } from "./kubectl.ts";
import { reasonOf } from "./reason-of.ts";
import { withValues } from "./with-values.ts";
import { writeOverlay } from "./write-overlay.ts";

const test = suite("admission in the namespace of builds");
let tenancy: Tenancy;
let manager: Program;
let operator: AccountClient;
let jobController: AccountClient;

const config = operatorConfig({
  TENANCY_REGISTRY: "registry.example.com/built",
  TENANCY_REGISTRY_SECRET: "push",
}).builds as BuildConfig;

function jobOf(image: Partial<WorkloadSpec["image"]>): Job {
  const spec = { image: { dockerfile: "Dockerfile", ...image } };
  const workload = { metadata: { name: "app", uid: "u" }, spec } as Workload;
  return renderBuildJob(workload, { key: "a".repeat(64), tries: 0 }, config);
}

/** As the Job controller makes it. */
function podOf({ metadata, spec }: Job): Pod {
  const { template } = spec;
  return {
    metadata: {
      ...template.metadata,
      name: `${metadata.name}-x`,
      namespace: config.namespace,
      ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name: metadata.name, uid: "j", controller: true }],
    },
    spec: template.spec as Pod["spec"],
  };
}

const uploaded = jobOf({});
const git = { url: "https://git.example.com/app.git", secretRef: { name: "token" } };
const rendered = { "an upload": uploaded, "a repository": jobOf({ context: { git } }) };

test.before(async () => {
  tenancy = await startTenancy("builds-admission", { nodes: false });
  const { cluster } = tenancy;
  const kubectl = await kubectlFor(cluster.kubeconfigPath);
  const overlay = await writeOverlay({ components: ["builds"] });
  await kubectl("apply", "-k", overlay.path);
  await overlay.remove();
  await kubectl("apply", "-k", "manifests/overlays/builds-with-admission");
  operator = await accountClient({ cluster, kubectl, namespace: NAMESPACE, account: "tenancy-operator" });
  // With its own account, as clusters in production run it. It would make the account itself, a moment later.
  await kubectl("-n", "kube-system", "create", "serviceaccount", "job-controller");
  const flags = ["--use-service-account-credentials"];
  manager = await startControllerManager(cluster, { controllers: "job-controller", flags });
  const controller = { cluster, kubectl, namespace: "kube-system", account: "job-controller" };
  jobController = await accountClient(controller);
  // The API server takes new policies up within seconds.
  await eventually(async () => (await refusal(tenancy.client, uploaded))?.includes("'tenancy-build-jobs'") ?? false);
  const own = podOf(uploaded);
  await eventually(async () => (await refusal(tenancy.client, own))?.includes("'tenancy-build-pods'") ?? false);
});

test.after(async () => {
  operator?.close();
  jobController?.close();
  if (manager !== undefined) await stopProcess(manager.identity, { name: manager.name });
  await tenancy?.stop();
});

/** Why a Job or a pod is refused; undefined where it is not. Nothing is created. */
function refusal(client: ClusterClient, object: Job | Pod): Promise<string | undefined> {
  const isJob = "template" in object.spec;
  return reasonOf(
    isJob ? client.create(jobs, object as Job, { dryRun: true }) : client.create(pods, object as Pod, { dryRun: true }),
  );
}

for (const [what, job] of Object.entries(rendered)) {
  test(`the operator's Job for ${what} is taken, and so is its pod`, async () => {
    assert.is(await refusal(operator, job), undefined);
    assert.is(await refusal(jobController, podOf(job)), undefined);
  });
}

/** One setting wrong each: what, the values, and what the refusal names. */
const wrongs: readonly [what: string, values: Record<string, unknown>, says: string][] = [
  ["another label", { "metadata.labels": { "tenancy.dev/build": "no" } }, "only for the pods of builds"],
  ["no Job", { "metadata.ownerReferences": [] }, "only for the pods of builds"],
  ["a token", { "spec.automountServiceAccountToken": true }, "automountServiceAccountToken"],
  ["a token by default", { "spec.automountServiceAccountToken": undefined }, "automountServiceAccountToken"],
  ["the node's network", { "spec.hostNetwork": true }, "namespaces of its node"],
  ["the node's processes", { "spec.hostPID": true }, "namespaces of its node"],
  ["the node's shared memory", { "spec.hostIPC": true }, "namespaces of its node"],
  ["one view of all processes", { "spec.shareProcessNamespace": true }, "do not share"],
  ["a port of the node", { "spec.containers.0.ports": [{ containerPort: 1, hostPort: 1 }] }, "hostPort"],
  ["a folder of the node", { "spec.volumes.0": { name: "context", hostPath: { path: "/" } } }, "spec.volumes"],
  [
    "a volume claim",
    { "spec.volumes.0": { name: "context", persistentVolumeClaim: { claimName: "c" } } },
    "spec.volumes",
  ],
  ["privileged", { "spec.containers.0.securityContext.privileged": true }, "privileged"],
  [
    "one capability more",
    { "spec.containers.0.securityContext.capabilities.add": ["SETUID", "SETGID", "SYS_ADMIN"] },
    "capabilities",
  ],
  ["capabilities kept", { "spec.initContainers.0.securityContext.capabilities": undefined }, "capabilities"],
  ["root", { "spec.containers.0.securityContext.runAsUser": 0 }, "not root"],
  ["root by the image", { "spec.initContainers.0.securityContext.runAsNonRoot": undefined }, "not root"],
  ["files that can be written", { "spec.containers.0.securityContext.readOnlyRootFilesystem": false }, "read-only"],
  ["a sysctl", { "spec.securityContext": { sysctls: [{ name: "kernel.shm_rmid_forced", value: "0" }] } }, "sysctls"],
  ["an SELinux type", { "spec.securityContext": { seLinuxOptions: { type: "spc_t" } } }, "seLinuxOptions"],
  ["no limits", { "spec.containers.0.resources": undefined }, "resources.limits"],
];

for (const [what, values, says] of wrongs) {
  test(`a pod is refused: ${what}`, async () => {
    const refused = (await refusal(jobController, withValues(podOf(uploaded), values))) ?? "taken";
    assert.match(refused, new RegExp(`denied request: .*${says}`), refused);
  });
}

test("the Job controller alone makes the pod of a build, whatever owner a pod names", async () => {
  const job = withValues(uploaded, { "metadata.name": "runs" });
  const { name, uid = "" } = (await operator.create(jobs, job)).metadata;
  const labelSelector = `batch.kubernetes.io/job-name=${name}`;
  const inBuilds = { namespace: config.namespace, labelSelector };
  await eventually(async () => (await tenancy.client.list(pods, inBuilds)).items.length === 1);
  const forged = withValues(podOf(job), { "metadata.ownerReferences.0.uid": uid });
  for (const client of [tenancy.client, operator])
    assert.match((await refusal(client, forged)) ?? "taken", /only the Job controller creates pods|forbidden/);
});

test("the pod of a build keeps the label that its network policy goes by", async () => {
  const { name } = (await jobController.create(pods, podOf(uploaded))).metadata;
  const label = (labels: object) => {
    const body = { metadata: { labels } };
    return reasonOf(tenancy.client.patch(pods, { namespace: config.namespace, name }, { type: "merge", body }));
  };
  for (const value of [null, "no"])
    assert.match((await label({ "tenancy.dev/build": value })) ?? "taken", /only for the pods of builds/);
  assert.is(await label({ other: "a" }), undefined);
});

test("nobody but the operator makes a Job, changes what it runs, or says how it ended", async () => {
  assert.match((await refusal(tenancy.client, uploaded)) ?? "taken", /only the operator creates Jobs/);
  const { name } = (await operator.create(jobs, uploaded)).metadata;
  const change = (client: ClusterClient, body: object, subresource?: "status") =>
    reasonOf(client.patch(jobs, { namespace: config.namespace, name }, { type: "merge", body, subresource }));
  const forged = { metadata: { annotations: { [annotation.buildResult]: "{}" } } };
  for (const body of [forged, { metadata: { labels: { a: "b" } } }, { spec: { activeDeadlineSeconds: 5 } }])
    assert.match((await change(tenancy.client, body)) ?? "taken", /only the operator changes Jobs/);
  assert.is(await change(tenancy.client, { metadata: { finalizers: ["example.com/kept"] } }), undefined);
  assert.is(await change(tenancy.client, { metadata: { finalizers: null } }), undefined);
  assert.match((await change(tenancy.client, forged, "status")) ?? "taken", /only the operator changes Jobs/);
  assert.is(await change(tenancy.client, { status: { active: 1 } }, "status"), undefined);
  assert.is(await change(operator, forged), undefined);
});

const older = suite("admission in the namespace of builds on a server before 1.30");

older("the overlay is refused, and says which kind the server does not know", async () => {
  tenancy = await startTenancy("builds-admission", { nodes: false });
  const kubectl = await kubectlFor(tenancy.cluster.kubeconfigPath);
  const overlay = "manifests/overlays/builds-with-admission";
  const reason = await kubectl("apply", "-k", overlay, validation(version)).catch(String);
  assert.match(reason, 'no matches for kind "ValidatingAdmissionPolicy"');
});
older.after(() => tenancy?.stop());

const { version } = await findBinaries({ need: CONTROL_PLANE_PROGRAMS });
if (versionAtLeast(version, "1.30")) test.run();
else older.run();
