// @own-cluster
// @limit 600
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { type ControlPlane, startControlPlane } from "../../../scripts/cluster/control-plane.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";
import { eventually } from "../../eventually.ts";
import { kubectlFor, type RunKubectl } from "../isolation/kubectl.ts";
import { chart, type Helm, root, startHelm } from "./helm.ts";

const test = suite("the chart on a real API server");
const work = mkdtempSync(join(tmpdir(), "tenancy-chart-"));
/** The version before this one, whose claims have no `spec.resume`. */
const before = join(work, "before");
let cluster: ControlPlane;
let kubectl: RunKubectl;
let helm: Helm;

test.before(async () => {
  cluster = await startControlPlane({
    name: `test-chart-${process.pid}`,
    binaries: await findBinaries({ need: CONTROL_PLANE_PROGRAMS }),
  });
  kubectl = await kubectlFor(cluster.kubeconfigPath);
  helm = await startHelm(cluster.kubeconfigPath);
  cpSync(chart, before, { recursive: true });
  const kinds = join(before, "templates/kinds.yaml");
  const text = readFileSync(kinds, "utf8");
  const without = text.replace(/^ +resume:\n( +)default: .*\n(?:\1.*\n)*/m, "");
  assert.is.not(without, text);
  writeFileSync(kinds, without);
});
test.after(async () => {
  await helm?.close();
  await cluster?.stop();
  rmSync(work, { recursive: true });
});

const ALL = {
  edge: {
    split: true,
    ingress: { enabled: true, host: "tenancy.example.com" },
    httpRoute: { enabled: true, host: "tenancy.example.com" },
  },
  gateway: {
    ingress: { enabled: true, host: "hooks.example.com" },
    httpRoute: { enabled: true, host: "hooks.example.com" },
  },
  frontDoor: {
    ...{ enabled: true, domain: "apps.example.com", public: true },
    ...{ ingress: { enabled: true }, httpRoute: { enabled: true } },
  },
  ...Object.fromEntries(
    ["admission", "egress", "builds", "quota", "priority", "flowControl", "traces"].map((name) => [
      name,
      { enabled: true },
    ]),
  ),
  snapshots: { store: "s3://bucket/snapshots" },
};

/** `kubectl wait` is no way to know: it fails at once on a definition whose conditions the API server has not written. */
const served = (kinds: string): Promise<void> =>
  eventually(() =>
    kubectl("get", kinds, "-A").then(
      () => true,
      () => false,
    ),
  );

test("the API server takes every object of every component, and knows every field", async () => {
  await kubectl("apply", "-f", join(root, "test/cluster/isolation/httproute-crd.yaml"));
  for (const name of ["dry", "dry-builds"]) await kubectl("create", "namespace", name);
  const elsewhere = { namespace: { name: "dry" }, builds: { enabled: true, namespace: "dry-builds" } };
  const file = join(work, "all.yaml");
  writeFileSync(file, await helm(["template", "tenancy", chart], { ...ALL, ...elsewhere }));
  await served("httproutes");
  const said = await kubectl("apply", "-f", file, "--dry-run=server", "--validate=strict");
  for (const kind of ["flowschema", "prioritylevelconfiguration", "priorityclass", "resourcequota", "limitrange"])
    assert.match(said, `${kind}`);
  assert.match(said, "httproute.gateway.networking.k8s.io/tenancy-gateway created (server dry run)");
});

const get = (...parameters: string[]): Promise<string> => kubectl("-n", "tenancy", "get", ...parameters);
const replicas = (): Promise<string> => get("deployment", "tenancy-edge", "-o", "jsonpath={.spec.replicas}");
const secret = (): Promise<string> => get("secret", "tenancy-snapshots", "-o", "jsonpath={.data}");
const resume = (): Promise<string> =>
  kubectl("explain", "tenancyclaim.spec.resume").catch((error: Error) => error.message);

test("one command installs it, with its namespace and kinds", async () => {
  await helm(["install", "tenancy", before], {});
  const labels = await kubectl("get", "namespace", "tenancy", "-o", "jsonpath={.metadata.labels}");
  assert.is(JSON.parse(labels)["pod-security.kubernetes.io/enforce"], "baseline");
  await served("tenancyclaims");
  assert.is(await replicas(), "2");
  assert.is(await secret(), "", "the operator fills it");
});

test("what is missing is said, and no secret is kept in the release", async () => {
  assert.match(await helm(["get", "notes", "tenancy"]), "create secret generic tenancy-api-key");
  await kubectl(
    "-n",
    "tenancy",
    "create",
    "secret",
    "generic",
    "tenancy-api-key",
    "--from-literal=api-key=a-key-of-tests",
  );
  // As the operator does.
  const data = '[{"op":"add","path":"/data","value":{"token":"YS10b2tlbg=="}}]';
  await kubectl("-n", "tenancy", "patch", "secret", "tenancy-snapshots", "--type=json", "-p", data);
  await kubectl("apply", "-f", join(root, "manifests/examples/hello-workload.yaml"));
  await kubectl("apply", "-f", join(root, "manifests/examples/hello-claim.yaml"));
  await helm(["upgrade", "tenancy", before], { operator: { replicas: 3 } });
  const release = await helm(["get", "all", "tenancy"]);
  assert.not.match(release, /a-key-of-tests|YS10b2tlbg|a-token/);
  assert.not.match(release, "create secret generic tenancy-api-key");
});

test("it is said of which namespaces privileged pods are taken, as long as no policy forbids them", async () => {
  const notes = async (values: object) =>
    await helm(["upgrade", "tenancy", chart, "--dry-run=client"], { ...values, crds: { install: false } });
  const open = /With \w+ the namespace (\S+) takes privileged pods/g;
  const told = async (values: object) => [...(await notes(values)).matchAll(open)].map(([, namespace]) => namespace);
  const [egress, builds] = [{ enabled: true }, { enabled: true, namespace: "elsewhere" }];
  assert.equal(await told({}), []);
  assert.equal(await told({ egress }), ["tenancy"]);
  assert.equal(await told({ builds }), ["elsewhere"]);
  assert.equal(await told({ egress, builds }), ["tenancy", "elsewhere"]);
  assert.equal(await told({ egress, builds, admission: { enabled: true } }), []);
});

test("an upgrade brings what the kinds have anew, and a rollback takes it back; secrets and claims stay", async () => {
  assert.match(await resume(), /does not exist/);
  await helm(["upgrade", "tenancy", chart], { ...ALL, edge: { ...ALL.edge, replicas: 4 } });
  await eventually(async () => !/does not exist/.test(await resume()));
  assert.is(await replicas(), "4");
  assert.match(await get("deployments", "-o", "name"), "deployment.apps/tenancy-gateway");
  await assertKept();
  await helm(["rollback", "tenancy", "2"]);
  await eventually(async () => /does not exist/.test(await resume()));
  assert.is(await replicas(), "2");
  assert.not.match(await get("deployments", "-o", "name"), "deployment.apps/tenancy-gateway");
  await assertKept();
});

async function assertKept(): Promise<void> {
  assert.is(await secret(), '{"token":"YS10b2tlbg=="}');
  assert.match(await get("tenancyclaims", "-o", "name"), /claim-/);
}

test("uninstalled, it leaves kinds, namespace and tenants' objects, which the next install takes over", async () => {
  const claim = await get("tenancyclaims", "-o", "jsonpath={.items[*].metadata.uid}");
  await helm(["uninstall", "tenancy"]);
  assert.is(await get("deployments", "-o", "name"), "");
  assert.is(await get("tenancyclaims", "-o", "jsonpath={.items[*].metadata.uid}"), claim);
  await helm(["install", "tenancy", chart], {});
  assert.is(await get("tenancyclaims", "-o", "jsonpath={.items[*].metadata.uid}"), claim);
  await helm(["uninstall", "tenancy"]);
});

test("what kubectl has applied becomes Helm's when one says so", async () => {
  await kubectl("apply", "-k", "manifests/base");
  const reason = await helm(["install", "tenancy", chart], {}).then(() => "taken", String);
  assert.match(reason, "cannot be imported into the current release");
  await helm(["install", "tenancy", chart, "--take-ownership"], { edge: { replicas: 5 } });
  assert.is(await replicas(), "5");
});

const setting = (name: string): Promise<string> =>
  get(
    "deployment",
    "tenancy-edge",
    "-o",
    `jsonpath={.spec.template.spec.containers[0].env[?(@.name=="${name}")].value}`,
  );

test("an upgrade brings a setting in place of the manifests' own, and one without it takes that back", async () => {
  for (const [env, delay, address] of [
    [{ TENANCY_STOP_DELAY: 10 }, "10", "0.0.0.0:8080"],
    [{ TENANCY_STOP_DELAY: 20, TENANCY_LISTEN: "[::]:8080" }, "20", "[::]:8080"],
    [{}, "5", "0.0.0.0:8080"],
  ] as const) {
    await helm(["upgrade", "tenancy", chart], { edge: { env } });
    assert.is(await setting("TENANCY_STOP_DELAY"), delay);
    assert.is(await setting("TENANCY_LISTEN"), address);
  }
});

test("a namespace that is there is refused until it holds pods to their limits, and may hold them to stricter ones", async () => {
  await kubectl("create", "namespace", "bare");
  const values = { namespace: { name: "bare" }, crds: { install: false }, admission: { enabled: true } };
  const install = ["install", "second", chart, "--namespace", "bare"];
  const reason = await helm(install, values).then(() => "taken", String);
  assert.match(reason, "The namespace bare is not this release's and lacks the label");
  const [, ...label] = /kubectl (label .*)/.exec(reason)?.[1]?.split(" ") ?? [];
  await kubectl("label", ...label);
  const level = (value: string) =>
    kubectl("label", "--overwrite", "namespace", "bare", `pod-security.kubernetes.io/enforce=${value}`);
  const stricter = { ...values, namespace: { name: "bare", podSecurity: "restricted" } };
  assert.match(await helm(install, stricter).then(() => "taken", String), "enforce=restricted");
  await level("restricted");
  await helm(install, values);
  const labels = await kubectl("get", "namespace", "bare", "-o", "jsonpath={.metadata.labels}");
  assert.is(JSON.parse(labels)["pod-security.kubernetes.io/enforce"], "restricted", "it is left as it was");
  await helm(["upgrade", "second", chart, "--namespace", "bare"], stricter);
  await level("privileged");
  const open = await helm(["upgrade", "second", chart, "--namespace", "bare"], values).then(() => "taken", String);
  assert.match(open, "enforce=baseline");
  await level("baseline");
  assert.match(await kubectl("-n", "bare", "get", "deployments", "-o", "name"), "tenancy-edge");
});

test("two releases have a priority and a flow of their own", async () => {
  const both = { priority: { enabled: true }, flowControl: { enabled: true } };
  await helm(["upgrade", "tenancy", chart], both);
  const values = { ...both, namespace: { name: "bare" }, crds: { install: false } };
  await helm(["upgrade", "second", chart, "--namespace", "bare"], values);
  for (const [namespace, name] of [
    ["tenancy", "tenancy"],
    ["bare", "tenancy.bare"],
  ] as const) {
    const jsonpath = "jsonpath={.spec.template.spec.priorityClassName}";
    assert.is(await kubectl("-n", namespace, "get", "deployment", "tenancy-edge", "-o", jsonpath), name);
    for (const kind of ["priorityclass", "flowschema", "prioritylevelconfiguration"]) await kubectl("get", kind, name);
  }
});

test("a release cannot make the namespace that it is kept in, and says what to do", async () => {
  const install = ["install", "third", chart, "--namespace", "missing", "--create-namespace"];
  const values = { namespace: { name: "missing" }, crds: { install: false } };
  const reason = await helm(install, values).then(() => "taken", String);
  assert.match(reason, "kubectl create namespace missing");
});

test.run();
