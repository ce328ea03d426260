// @own-cluster
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps, namespaces, secrets } from "../../../crds/client/built-in-resources.ts";
import { claims, pools, triggers, workloads } from "../../../crds/kinds.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import type { Resource } from "../../../crds/resource.ts";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { versionAtLeast } from "../../../scripts/cluster/kubernetes/version-at-least.ts";
import { stopProcess } from "../../../scripts/cluster/process/stop-process.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";
import { root, runPageCommands } from "../../page-commands.ts";
import { startControllerManager } from "../controller-manager.ts";
import { kubectlFor, validation } from "../isolation/kubectl.ts";
import { type RestEdge, startRestEdge } from "../rest/rest-edge.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";
import { gitopsHealth } from "./gitops-health.ts";

const test = suite("what users of kubectl and GitOps tools see");
const { version } = await findBinaries({ need: CONTROL_PLANE_PROGRAMS });
let tenancy: Tenancy;
let operator: RunningOperator;
let edge: RestEdge;
let kubectl: (...parameters: string[]) => Promise<string>;

test.before(async () => {
  tenancy = await startTenancy("test-kubectl-wait");
  operator = tenancy.startOperator();
  const run = await kubectlFor(tenancy.cluster.kubeconfigPath);
  kubectl = (...parameters) => run("--namespace", NAMESPACE, ...parameters);
  edge = await startRestEdge("bun", { KUBECONFIG: tenancy.cluster.kubeconfigPath });
  await tenancy.client.create(namespaces, { metadata: { name: "argocd" } });
});
test.after(async () => {
  await edge?.stop();
  await tenancy?.stop();
});

interface Standing extends KubernetesObject {
  status?: {
    observedGeneration?: number;
    conditions?: {
      type: string;
      status: string;
      lastTransitionTime: string;
      reason: string;
      observedGeneration?: number;
    }[];
  };
}

const wait = (what: string, condition: string) =>
  kubectl("wait", what, `--for=condition=${condition}`, "--timeout=120s");

const resources = { tw: workloads, tp: pools, tc: claims, tt: triggers } as Record<string, Resource<KubernetesObject>>;

/** What `wait` waits for, without a start of kubectl, which takes a third of a second. */
function until(what: string, condition: string): Promise<unknown> {
  const [resource, name = ""] = [resources[what.slice(0, 2)] ?? workloads, what.slice(3)];
  const [type, expected = "true"] = condition.split("=");
  return tenancy.until(`${what} ${condition}`, async () => {
    const { status, metadata }: Standing = await tenancy.client.get(resource, { namespace: NAMESPACE, name });
    const found = status?.conditions?.find((entry) => entry.type === type);
    const isOfNow = (found?.observedGeneration ?? metadata.generation) === metadata.generation;
    return isOfNow && found?.status.toLowerCase() === expected;
  });
}

/** As `kubectl` would read it, without the types of ours. */
async function condition(resource: Resource<KubernetesObject>, name: string, type: string) {
  const object: Standing = await tenancy.client.get(resource, { namespace: NAMESPACE, name });
  const found = object.status?.conditions?.filter((entry) => entry.type === type) ?? [];
  assert.is(found.length, 1, `${name}: ${JSON.stringify(object.status)}`);
  return found[0];
}

/** What Flux and Argo CD make of each object of the four kinds, by kind and name. */
async function health(namespace: string): Promise<Record<string, string>> {
  const list = await kubectl("--namespace", namespace, "get", "tenancy", "-o", "json");
  const { items } = JSON.parse(list) as { items: KubernetesObject[] };
  const verdicts = await gitopsHealth(list);
  return Object.fromEntries(
    items.map(({ kind, metadata }, index) => [
      `${kind?.replace("Tenancy", "")} ${metadata.name}`,
      `${verdicts[index]?.flux} ${verdicts[index]?.argo}`,
    ]),
  );
}

test("kubectl wait --for=condition=Ready ends for all four kinds", async () => {
  await tenancy.createWorkload("hello");
  assert.match(await wait("tw/hello", "Ready"), /condition met/);
  await tenancy.createPool("hello", { workloadRef: "hello", size: 2 });
  assert.match(await wait("tp/hello", "Ready"), /condition met/);
  const claim = await tenancy.createClaim("alice", "hello");
  assert.match(await wait(`tc/${claim.metadata.name}`, "Ready"), /condition met/);
  await tenancy.client.create(triggers, {
    metadata: { name: "hook", namespace: NAMESPACE },
    spec: { type: "webhook", workloadRef: "hello", tenant: { static: "alice" }, config: { path: "/hooks/hook" } },
  });
  assert.match(await wait("tt/hook", "Ready"), /condition met/);
});

test("a claim whose spec was changed stays Ready, about its new generation, since when it was", async () => {
  const name = "claim-alice-hello";
  const before = await condition(claims, name, "Ready");
  const patched = await tenancy.client.patch(
    claims,
    { namespace: NAMESPACE, name },
    { type: "merge", body: { spec: { resume: true } } },
  );
  const { generation: observedGeneration = 0 } = patched.metadata;
  assert.ok(observedGeneration > 1);
  await until(`tc/${name}`, "Ready");
  await tenancy.untilClaim(name, { observedGeneration });
  assert.equal({ ...before, observedGeneration }, await condition(claims, name, "Ready"));
});

test("what is wrong makes Ready false with its reason, and mended it is true, later", async () => {
  await tenancy.createWorkload("bad", { image: { ref: "simulated/hello::bad" } });
  await wait("tw/bad", "Ready=false");
  const bad = await condition(workloads, "bad", "Ready");
  assert.is(bad?.reason, "Invalid");
  const early = await tenancy.createClaim("bob", "later");
  await until(`tc/${early.metadata.name}`, "Ready=false");
  assert.is((await condition(claims, early.metadata.name, "Ready"))?.reason, "WorkloadNotFound");
  await tenancy.client.create(triggers, {
    metadata: { name: "reserved", namespace: NAMESPACE },
    spec: { type: "webhook", workloadRef: "hello", tenant: { static: "alice" }, config: { path: "/api/hook" } },
  });
  await until("tt/reserved", "Ready=false");
  const secretRef = { name: "applied-later", key: "secret" };
  await tenancy.client.create(triggers, {
    metadata: { name: "signed", namespace: NAMESPACE },
    spec: {
      ...{ type: "webhook", workloadRef: "hello", tenant: { static: "alice" } },
      config: { path: "/hooks/signed", secretRef },
    },
  });
  await until("tt/signed", "Reconciling");
  await tenancy.createPool("bad", { workloadRef: "bad", size: 1 });
  await until("tp/bad", "Ready=false");
  const failed = await tenancy.createClaim("bob", "bad");
  await until(`tc/${failed.metadata.name}`, "Stalled");

  const [healthy, waiting, degraded] = ["Current Healthy", "InProgress Progressing", "Failed Degraded"];
  assert.equal(await health(NAMESPACE), {
    ...{
      "Workload hello": healthy,
      "Pool hello": healthy,
      "Claim claim-alice-hello": healthy,
      "Trigger hook": healthy,
    },
    ...{ "Workload bad": degraded, "Claim claim-bob-bad": degraded, "Trigger reserved": degraded },
    ...{ "Pool bad": waiting, "Claim claim-bob-later": waiting, "Trigger signed": waiting },
  });
  // Nobody looks at the objects of another namespace.
  await tenancy.client.create(namespaces, { metadata: { name: "elsewhere" } });
  const made = await kubectl("get", "tw/hello", "tp/hello", `tc/${early.metadata.name}`, "tt/hook", "-o", "json");
  for (const { apiVersion, kind, metadata, spec } of JSON.parse(made).items) {
    const path = `/apis/${apiVersion}/namespaces/elsewhere/${kind.toLowerCase()}s`;
    const body = JSON.stringify({ apiVersion, kind, metadata: { name: metadata.name }, spec });
    await tenancy.client.request({ method: "POST", path, body });
  }
  const unseen = Object.values(await health("elsewhere"));
  assert.equal(unseen, [waiting, waiting, waiting, waiting]);

  const metadata = { name: secretRef.name, namespace: NAMESPACE };
  await tenancy.client.create(secrets, { metadata, stringData: { [secretRef.key]: "s" } });
  await until("tt/signed", "Ready");
  await tenancy.client.delete(secrets, metadata);
  await until("tt/signed", "Reconciling");
  await tenancy.client.create(secrets, { metadata, stringData: { another: "s" } });
  await until("tt/signed", "Stalled");
  await tenancy.client.delete(triggers, { name: "signed", namespace: NAMESPACE });
  await tenancy.client.delete(secrets, metadata);

  await tenancy.createWorkload("later");
  await until(`tc/${early.metadata.name}`, "Ready");
  const body = { spec: { image: { ref: "simulated/hello:1" } } };
  await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "bad" }, { type: "merge", body });
  await until("tw/bad", "Ready");
  const mended = await condition(workloads, "bad", "Ready");
  assert.ok(Date.parse(mended?.lastTransitionTime ?? "") > Date.parse(bad?.lastTransitionTime ?? ""));
});

test("kubectl get tc finds claims by their workload, those of kubectl and those of the API", async () => {
  await edge.call("POST /api/v1/tenants/{id}/claim", {
    path: "/api/v1/tenants/carol/claim",
    body: { workload: "hello" },
  });
  const byLabel = await kubectl("get", "tc", "-l", "tenancy.dev/workload=hello", "-o", "name");
  const expected = ["tenancyclaim.tenancy.dev/claim-alice-hello", "tenancyclaim.tenancy.dev/claim-carol-hello"];
  assert.equal(byLabel.trim().split("\n").sort(), expected);
  if (!versionAtLeast(version, "1.31")) {
    console.log(`note: ${version} has no selectable fields of custom resources, which came with 1.31`);
    return;
  }
  for (const selector of ["spec.workloadRef=hello", "spec.workloadRef=hello,status.phase=Active"]) {
    const byField = await kubectl("get", "tc", "--field-selector", selector, "-o", "name");
    assert.equal(byField.trim().split("\n").sort(), expected);
  }
  assert.is((await kubectl("get", "tc", "--field-selector", "spec.tenantId=nobody", "-o", "name")).trim(), "");
});

test("a deleted workload that is held is Terminating and says who holds it, to kubectl and the API alike", async () => {
  await tenancy.createWorkload("held");
  await tenancy.createPool("held", { workloadRef: "held", size: 1 });
  await until("tp/held", "Ready");
  const claim = await tenancy.createClaim("dora", "held");
  await until(`tc/${claim.metadata.name}`, "Ready");
  const holders = /in use by claim claim-dora-held and pool held: release its claims and delete its pools$/;
  const route = { path: "/api/v1/workloads/held" };
  const deleted = await edge.call("DELETE /api/v1/workloads/{name}", route);
  const { message, ...answer } = deleted.json as { message: string };
  assert.equal(answer, { status: "deleted", phase: "Terminating" });
  assert.match(message, holders);

  await until("tw/held", "Ready=false");
  const columns = ["custom-columns=P:.status.phase,R:.status.reason,M:.status.message", "--no-headers"];
  const [phase, reason, ...words] = (await kubectl("get", "tw/held", "-o", ...columns)).trim().split(/\s+/);
  assert.equal([phase, reason], ["Terminating", "InUse"]);
  assert.match(words.join(" "), holders);
  assert.match(await kubectl("get", "tw/held"), /Terminating +InUse/);
  const shown = (await edge.call("GET /api/v1/workloads/{name}", route)).json as { status: object };
  assert.equal(shown.status, { phase, reason, message: words.join(" ") });
  await until("tp/held", "Ready=false");
  assert.is((await condition(pools, "held", "Degraded"))?.reason, "WorkloadTerminating");

  await kubectl("delete", "tp/held");
  await tenancy.until("the pool is no longer named", async () =>
    /in use by claim claim-dora-held:/.test(await kubectl("get", "tw/held", "-o", "jsonpath={.status.message}")),
  );
  await kubectl("delete", `tc/${claim.metadata.name}`);
  await kubectl("wait", "tw/held", "--for=delete", "--timeout=120s");
  assert.equal(edge.problems, []);
});

test("a label of a claim that a person changes comes back", async () => {
  await kubectl("label", "tc/claim-alice-hello", "tenancy.dev/workload=other", "--overwrite");
  await tenancy.untilClaim(
    "claim-alice-hello",
    (claim) => claim?.metadata.labels?.["tenancy.dev/workload"] === "hello",
  );
});

test("kubectl diff is quiet after an apply, and a dry run writes nothing", async () => {
  if (!versionAtLeast(version, "1.30")) {
    console.log(`note: ${version} refuses server-side apply of what the definitions say that it does not know`);
    return;
  }
  const examples = ["-f", "manifests/examples"];
  const before = await kubectl("get", "tenancy", "-o", "json");
  await kubectl("apply", ...examples, validation(version), "--dry-run=server");
  assert.is(await kubectl("get", "tenancy", "-o", "json"), before);
  assert.match(await kubectl("diff", ...examples).catch(String), /ended with status 1/);

  for (const mode of [[], ["--server-side"]]) {
    await kubectl("apply", ...examples, validation(version), ...mode);
    await tenancy.until("each example was looked at", async () => {
      const { items } = JSON.parse(await kubectl("get", ...examples, "-o", "json")) as { items: Standing[] };
      return items.every(({ metadata, status }) => status?.observedGeneration === metadata.generation);
    });
    assert.is(await kubectl("diff", ...examples, ...mode), "", `diff ${mode}`);
  }
});

for (const [installed, ...how] of [
  ["as its own pages say", "apply", "--server-side", "--force-conflicts"],
  ["as they said before", "apply"],
  ["by something else", "create"],
]) {
  test(`Argo CD's settings get the health of the four kinds, and keep what they have: installed ${installed}`, async () => {
    const folder = await mkdtemp(join(tmpdir(), "argocd-"));
    const argocd = { name: "argocd-cm", namespace: "argocd" };
    const labels = { "app.kubernetes.io/name": "argocd-cm", "app.kubernetes.io/part-of": "argocd" };
    const url = "https://argocd.example";
    const file = join(folder, "argocd-cm.json");
    await writeFile(
      file,
      JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { ...argocd, labels }, data: { url } }),
    );
    try {
      await kubectl("--namespace", argocd.namespace, ...how, "-f", file);
      await runCommands("docs/how-to/use-gitops.md", /manifests\/argocd/, { folder: root });
      const { data = {}, metadata } = await tenancy.client.get(configMaps, argocd);
      const script = await readFile(join(root, "manifests/argocd/health.lua"), "utf8");
      const kinds = [workloads, pools, claims, triggers].map(({ kind }) => kind);
      const health = kinds.map((kind) => [`resource.customizations.health.tenancy.dev_${kind}`, script]);
      assert.equal(data, { url, ...Object.fromEntries(health) });
      assert.equal(metadata.labels, labels);
    } finally {
      await tenancy.client.delete(configMaps, argocd);
      await rm(folder, { recursive: true });
    }
  });
}

test("kubectl explain describes every field of the four kinds", async () => {
  for (const kind of ["tenancyworkloads", "tenancypools", "tenancyclaims", "tenancytriggers"]) {
    for (const part of ["spec", "status"]) {
      const text = await tenancy.until(`${kind}.${part} is published`, () =>
        kubectl("explain", `${kind}.${part}`).catch(() => undefined),
      );
      assert.match(text, /^FIELDS:$/m, text);
      const fields = text.slice(text.indexOf("FIELDS:")).split(/^ {2,3}(?=\w+\s+<)/m);
      assert.ok(fields.length > 1, text);
      for (const field of fields.slice(1)) assert.not.match(field, /<no description>|^\S+\s+<[^\n]*\n*$/, field);
    }
  }
  assert.match(await kubectl("explain", "tenancyworkloads.spec.idle.action"), /ENUM|hibernate/);
});

const runCommands = (page: string, which: RegExp, { folder }: { folder: string }) =>
  runPageCommands(page, which, { folder, kubeconfigPath: tenancy.cluster.kubeconfigPath });

test("a namespace whose operator is gone for good can be deleted, and what was kept of it be restored", async () => {
  const folder = await mkdtemp(join(tmpdir(), "backup-"));
  try {
    await tenancy.client.create(secrets, {
      metadata: { name: "tenancy-api-key", namespace: NAMESPACE },
      stringData: { "api-key": "k" },
    });
    // Where Helm keeps its release in this namespace.
    const release = { name: "sh.helm.release.v1.tenancy.v1", namespace: NAMESPACE };
    await tenancy.client.create(secrets, { metadata: release, type: "helm.sh/release.v1" });
    const kept = (await kubectl("get", "tw,tp,tt,tc", "-o", "name")).split("\n");
    await runCommands("docs/how-to/back-up.md", /> claims\.yaml/, { folder });

    await edge.stop();
    await operator.stop();
    await deleteNamespace({ whenItHangs: () => runCommands("docs/how-to/uninstall.md", /finalizers/, { folder }) });

    await kubectl("create", "namespace", NAMESPACE);
    await kubectl("create", "-f", join(folder, "secrets.yaml"));
    const restored = (await kubectl("get", "secrets", "-o", "name")).trim();
    assert.is(restored, "secret/tenancy-api-key");
    tenancy.startOperator();
    await kubectl("create", "-f", join(folder, "resources.yaml"));
    await until("tw/hello", "Ready");
    await kubectl("create", "-f", join(folder, "claims.yaml"));
    const { spec } = await tenancy.client.get(claims, { name: "claim-alice-hello", namespace: NAMESPACE });
    assert.is(spec.resume, true);
    assert.equal((await kubectl("get", "tw,tp,tt,tc", "-o", "name")).split("\n"), kept);
  } finally {
    await rm(folder, { recursive: true });
  }
});

/** Deletes the namespace as a cluster does that has controllers, and waits until it is gone. */
async function deleteNamespace({ whenItHangs }: { whenItHangs: () => Promise<void> }): Promise<void> {
  const controllers = await startControllerManager(tenancy.cluster, { controllers: "namespace,pvc-protection" });
  try {
    await kubectl("delete", "namespace", NAMESPACE, "--wait=false");
    await kubectl("wait", `namespace/${NAMESPACE}`, "--for=condition=NamespaceFinalizersRemaining", "--timeout=120s");
    await whenItHangs();
    await kubectl("wait", `namespace/${NAMESPACE}`, "--for=delete", "--timeout=60s").catch(async (error) => {
      throw new Error(await kubectl("get", "namespace", NAMESPACE, "-o", "yaml"), { cause: error });
    });
  } finally {
    await stopProcess(controllers.identity, { name: controllers.name });
  }
}

test.run();
