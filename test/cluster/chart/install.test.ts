// @own-cluster
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { type ControlPlane, startControlPlane } from "../../../scripts/cluster/control-plane.ts";
import { type ApiClient, createApiClient } from "../../../scripts/cluster/kubernetes/api-client.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";
import { eventually } from "../../eventually.ts";
import { kubectlFor, type RunKubectl } from "../isolation/kubectl.ts";
import { chart, type Helm, root, startHelm } from "./helm.ts";

const test = suite("the chart on a real API server");
const work = mkdtempSync(join(tmpdir(), "tenancy-chart-"));
/** The version before this one, whose claims have no `spec.resume`. */
const before = join(work, "before");
let cluster: ControlPlane;
let api: ApiClient;
let kubectl: RunKubectl;
let helm: Helm;

test.before(async () => {
  cluster = await startControlPlane({
    name: `test-chart-${process.pid}`,
    binaries: await findBinaries({ need: CONTROL_PLANE_PROGRAMS }),
  });
  api = createApiClient(cluster.kubeconfigPath);
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
  api?.close();
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

const CORE = "/api/v1/namespaces/tenancy";
const APPS = "/apis/apps/v1/namespaces/tenancy/deployments";
const KINDS = "/apis/tenancy.dev/v1alpha1";
const DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMESPACES = "/api/v1/namespaces";

/** An object or a list as the API server has it; undefined where there is none. */
async function read<T>(path: string): Promise<T | undefined> {
  const { status, text } = await waitUntil(
    async () => {
      const answer = await api.call({ method: "GET", path });
      // A kind whose definition was just changed.
      return answer.status !== 429 && answer;
    },
    { what: `an answer to ${path}`, limitMs: 60_000 },
  );
  if (status === 404) return undefined;
  assert.is(status, 200, text);
  return JSON.parse(text) as T;
}

async function create(path: string, body: object): Promise<void> {
  const { status, text } = await api.call({ method: "POST", path, body });
  assert.is(status, 201, text);
}

async function patch(path: string, body: object): Promise<void> {
  const contentType = "application/merge-patch+json";
  const { status, text } = await api.call({ method: "PATCH", path, contentType, body });
  assert.is(status, 200, text);
}

interface Named {
  metadata: { name: string; uid: string; labels?: Record<string, string> };
}

interface Deployment extends Named {
  spec: {
    replicas: number;
    template: {
      spec: { priorityClassName?: string; containers: { env: { name: string; value?: string }[] }[] };
    };
  };
}

const namesOf = async (path: string): Promise<string[]> =>
  (await read<{ items: Named[] }>(path))?.items.map(({ metadata }) => metadata.name) ?? [];
const labelsOf = async (namespace: string) => (await read<Named>(`${NAMESPACES}/${namespace}`))?.metadata.labels;
const createNamespace = (name: string): Promise<void> => create(NAMESPACES, { metadata: { name } });
const served = (path: string): Promise<void> => eventually(async () => (await read(path)) !== undefined);

test("the API server takes every object of every component, and knows every field", async () => {
  await kubectl("apply", "-f", join(root, "test/cluster/isolation/httproute-crd.yaml"));
  for (const name of ["dry", "dry-builds"]) await createNamespace(name);
  const elsewhere = { namespace: { name: "dry" }, builds: { enabled: true, namespace: "dry-builds" } };
  const file = join(work, "all.yaml");
  writeFileSync(file, await helm(["template", "tenancy", chart], { ...ALL, ...elsewhere }));
  await served("/apis/gateway.networking.k8s.io/v1/httproutes");
  const said = await kubectl("apply", "-f", file, "--dry-run=server", "--validate=strict");
  for (const kind of ["flowschema", "prioritylevelconfiguration", "priorityclass", "resourcequota", "limitrange"])
    assert.match(said, `${kind}`);
  assert.match(said, "httproute.gateway.networking.k8s.io/tenancy-gateway created (server dry run)");
});

const edge = () => read<Deployment>(`${APPS}/tenancy-edge`);
const replicas = async () => (await edge())?.spec.replicas;
const secret = async () => (await read<{ data?: object }>(`${CORE}/secrets/tenancy-snapshots`))?.data;
const claimsOf = async () => (await read<{ items: Named[] }>(`${KINDS}/tenancyclaims`))?.items ?? [];
/** Whether claims have a `spec.resume`. */
const hasResume = async (): Promise<boolean> =>
  JSON.stringify(await read(`${DEFINITIONS}/tenancyclaims.tenancy.dev`)).includes('"resume":');

test("one command installs it, with its namespace and kinds", async () => {
  await helm(["install", "tenancy", before], {});
  assert.is((await labelsOf("tenancy"))?.["pod-security.kubernetes.io/enforce"], "baseline");
  await served(`${KINDS}/tenancyclaims`);
  assert.is(await replicas(), 2);
  assert.is(await secret(), undefined, "the operator fills it");
});

test("what is missing is said, and no secret is kept in the release", async () => {
  assert.match(await helm(["get", "notes", "tenancy"]), "create secret generic tenancy-api-key");
  await create(`${CORE}/secrets`, {
    metadata: { name: "tenancy-api-key" },
    stringData: { "api-key": "a-key-of-tests" },
  });
  // As the operator does.
  await patch(`${CORE}/secrets/tenancy-snapshots`, { data: { token: "YS10b2tlbg==" } });
  const examples = ["workload", "claim"].map((name) => join(root, `manifests/examples/hello-${name}.yaml`));
  await kubectl("apply", ...examples.flatMap((file) => ["-f", file]));
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
  assert.equal(await told({ egress, builds }), ["tenancy", "elsewhere"]);
  assert.equal(await told({ egress, builds, admission: { enabled: true } }), []);
});

test("an upgrade brings what the kinds have anew, and a rollback takes it back; secrets and claims stay", async () => {
  assert.not(await hasResume());
  await helm(["upgrade", "tenancy", chart], { ...ALL, edge: { ...ALL.edge, replicas: 4 } });
  assert.ok(await hasResume());
  assert.is(await replicas(), 4);
  assert.ok((await namesOf(APPS)).includes("tenancy-gateway"));
  await assertKept();
  await helm(["rollback", "tenancy", "2"]);
  assert.not(await hasResume());
  assert.is(await replicas(), 2);
  assert.not((await namesOf(APPS)).includes("tenancy-gateway"));
  await assertKept();
});

async function assertKept(): Promise<void> {
  assert.equal(await secret(), { token: "YS10b2tlbg==" });
  assert.match((await claimsOf())[0]?.metadata.name ?? "", /^claim-/);
}

test("uninstalled, it leaves kinds, namespace and tenants' objects, which the next install takes over", async () => {
  const uids = async () => (await claimsOf()).map(({ metadata }) => metadata.uid);
  const before = await uids();
  assert.is(before.length, 1);
  await helm(["uninstall", "tenancy"]);
  assert.equal(await namesOf(APPS), []);
  assert.equal(await uids(), before);
  await helm(["install", "tenancy", chart], {});
  assert.equal(await uids(), before);
  await helm(["uninstall", "tenancy"]);
});

test("what kubectl has applied becomes Helm's when one says so", async () => {
  await kubectl("apply", "-k", "manifests/base");
  const reason = await helm(["install", "tenancy", chart], {}).then(() => "taken", String);
  assert.match(reason, "cannot be imported into the current release");
  await helm(["install", "tenancy", chart, "--take-ownership"], { edge: { replicas: 5 } });
  assert.is(await replicas(), 5);
});

const setting = async (name: string) =>
  (await edge())?.spec.template.spec.containers[0]?.env.find((one) => one.name === name)?.value;

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
  await createNamespace("bare");
  const values = { namespace: { name: "bare" }, crds: { install: false }, admission: { enabled: true } };
  const install = ["install", "second", chart, "--namespace", "bare"];
  const reason = await helm(install, values).then(() => "taken", String);
  assert.match(reason, "The namespace bare is not this release's and lacks the label");
  const [, ...label] = /kubectl (label .*)/.exec(reason)?.[1]?.split(" ") ?? [];
  await kubectl("label", ...label);
  const level = (value: string) =>
    patch(`${NAMESPACES}/bare`, { metadata: { labels: { "pod-security.kubernetes.io/enforce": value } } });
  const stricter = { ...values, namespace: { name: "bare", podSecurity: "restricted" } };
  assert.match(await helm(install, stricter).then(() => "taken", String), "enforce=restricted");
  await level("restricted");
  await helm(install, values);
  const labels = await labelsOf("bare");
  assert.is(labels?.["pod-security.kubernetes.io/enforce"], "restricted", "it is left as it was");
  await helm(["upgrade", "second", chart, "--namespace", "bare"], stricter);
  await level("privileged");
  const open = await helm(["upgrade", "second", chart, "--namespace", "bare"], values).then(() => "taken", String);
  assert.match(open, "enforce=baseline");
  await level("baseline");
  assert.ok((await namesOf(APPS.replace("tenancy", "bare"))).includes("tenancy-edge"));
});

const FLOW_KINDS = ["flowschemas", "prioritylevelconfigurations"].map(
  (kind) => `flowcontrol.apiserver.k8s.io/v1/${kind}`,
);

test("two releases have a priority and a flow of their own", async () => {
  const both = { priority: { enabled: true }, flowControl: { enabled: true } };
  await helm(["upgrade", "tenancy", chart], both);
  const values = { ...both, namespace: { name: "bare" }, crds: { install: false } };
  await helm(["upgrade", "second", chart, "--namespace", "bare"], values);
  for (const [namespace, name] of [
    ["tenancy", "tenancy"],
    ["bare", "tenancy.bare"],
  ] as const) {
    const found = await read<Deployment>(`${APPS.replace("tenancy", namespace)}/tenancy-edge`);
    assert.is(found?.spec.template.spec.priorityClassName, name);
    for (const path of ["scheduling.k8s.io/v1/priorityclasses", ...FLOW_KINDS])
      assert.ok(await read(`/apis/${path}/${name}`), path);
  }
});

test("a release cannot make the namespace that it is kept in, and says what to do", async () => {
  const install = ["install", "third", chart, "--namespace", "missing", "--create-namespace"];
  const values = { namespace: { name: "missing" }, crds: { install: false } };
  const reason = await helm(install, values).then(() => "taken", String);
  assert.match(reason, "kubectl create namespace missing");
});

test.run();
