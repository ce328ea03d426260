// @own-cluster
// Every account of the manifests, against every kind of pod, with every change: by RBAC alone, and under the policies.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, IN_FLIGHT_PREFIX, label } from "../../../crds/labels.ts";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { versionAtLeast } from "../../../scripts/cluster/kubernetes/version-at-least.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";
import { eventually } from "../../eventually.ts";
import { root, runPageCommands } from "../../page-commands.ts";
import { BUILDS } from "../builds/pretend-builders.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { type AccountClient, accountClient } from "./account-client.ts";
import { kubectlFor, type RunKubectl, validation } from "./kubectl.ts";
import { reasonOf } from "./reason-of.ts";
import { renderedPods } from "./rendered-pods.ts";
import { withValues } from "./with-values.ts";
import { writeOverlay } from "./write-overlay.ts";

const test = suite("what the accounts of the edge may change of pods");

const EDGES = ["tenancy-api", "tenancy-gateway", "tenancy-proxy", "tenancy-edge", "default"] as const;
const SUBRESOURCES = ["", "/status", "/ephemeralcontainers", "/resize"];

let tenancy: Tenancy;
let kubectl: RunKubectl;
let version: string;
const accounts = new Map<string, AccountClient>();
const cast = new Map<string, Pod>();
let knowsResize = true;

interface Change {
  readonly what: string;
  readonly body: object;
  /** By a strategic merge instead of a merge. */
  readonly isStrategic?: true;
}

const metadata = (values: object): object => ({ metadata: values });
const owner = { apiVersion: "v1", kind: "ConfigMap", name: "c", uid: "u" };

function changesOf({ spec }: Pod): readonly Change[] {
  const [first] = spec.containers;
  const containers = [{ name: first?.name, image: "theirs:1" }];
  return [
    { what: "image", body: { spec: { containers } }, isStrategic: true },
    { what: "deadline", body: { spec: { activeDeadlineSeconds: 1 } } },
    { what: "ephemeral container", body: { spec: { ephemeralContainers: [{ name: "debug", image: "theirs:1" }] } } },
    { what: "resources", body: resources(first?.name), isStrategic: true },
    { what: "tenant", body: metadata({ labels: { [label.tenant]: "mallory" } }) },
    { what: "managed", body: metadata({ labels: { [label.managed]: null } }) },
    { what: "label", body: metadata({ labels: { theirs: "1" } }) },
    { what: "app label", body: metadata({ labels: { "app.kubernetes.io/name": "tenancy-snapshots" } }) },
    { what: "claim", body: metadata({ annotations: { [annotation.claimUid]: "stolen" } }) },
    { what: "annotation", body: metadata({ annotations: { theirs: "1" } }) },
    { what: "owner", body: metadata({ ownerReferences: [owner] }) },
    { what: "finalizer", body: metadata({ finalizers: ["example.com/theirs"] }) },
    { what: "address", body: { status: { podIP: "10.9.9.9", podIPs: [{ ip: "10.9.9.9" }] } } },
    { what: "phase", body: { status: { phase: "Failed" } } },
  ];
}

function resources(name: string | undefined): object {
  return { spec: { containers: [{ name, resources: { limits: { cpu: "3", memory: "3Gi" } } }] } };
}

const uses: readonly Change[] = [
  { what: "last use", body: metadata({ annotations: { [annotation.lastActivity]: "2026-01-01T00:00:00Z" } }) },
  { what: "in flight", body: metadata({ annotations: { [`${IN_FLIGHT_PREFIX}x`]: "2026-01-01T00:00:00Z" } }) },
];

/** Why the change is refused; undefined where it is taken and leaves the pod other than it was. Nothing is written. */
async function refusal(client: ClusterClient, pod: Pod, change: Change & { by: string }): Promise<string | undefined> {
  const { name, namespace } = pod.metadata;
  let written: Pod | undefined;
  const reason = await reasonOf(
    client
      .request({
        method: "PATCH",
        path: `/api/v1/namespaces/${namespace}/pods/${name}${change.by}?dryRun=All`,
        contentType: `application/${change.isStrategic ? "strategic-merge" : "merge"}-patch+json`,
        body: JSON.stringify(change.body),
      })
      .then(({ body }) => {
        written = JSON.parse(body.toString("utf8")) as Pod;
      }),
  );
  if (written === undefined) return reason;
  return isSame(pod, written) ? "ignored" : undefined;
}

/** Beside what the server itself counts and names. */
function isSame(before: Pod, after: Pod): boolean {
  const told = ({ metadata: { labels, annotations, ownerReferences, finalizers }, spec, status }: Pod): string =>
    JSON.stringify([labels, annotations, ownerReferences, finalizers, spec, status]);
  return told(before) === told(after);
}

function deletion(client: ClusterClient, { metadata: { name, namespace } }: Pod): Promise<string | undefined> {
  const path = `/api/v1/namespaces/${namespace}/pods/${name}?dryRun=All`;
  return reasonOf(client.request({ method: "DELETE", path }));
}

test.before(async () => {
  tenancy = await startTenancy("pod-writes", { nodes: false });
  const { cluster, client } = tenancy;
  version = cluster.version;
  kubectl = await kubectlFor(cluster.kubeconfigPath);
  await kubectl("apply", "-k", "manifests/builds", validation(version));
  await apply([]);
  // The one edge of the base, whose account and bindings `split-edge` takes away.
  await kubectl("-n", NAMESPACE, "create", "serviceaccount", "tenancy-edge");
  // Which a controller makes elsewhere: instances run as it.
  await kubectl("-n", NAMESPACE, "create", "serviceaccount", "default");
  for (const role of ["api", "gateway"])
    await kubectl("-n", NAMESPACE, "create", "rolebinding", `edge-${role}`, `--role=tenancy-${role}`, subject("edge"));
  const shared = { cluster, kubectl, namespace: NAMESPACE };
  for (const account of ["tenancy-operator", ...EDGES])
    accounts.set(account, await accountClient({ ...shared, account }));

  const deployments = JSON.parse(await kubectl("-n", NAMESPACE, "get", "deployments", "-o", "json")) as {
    items: { metadata: { name: string }; spec: { template: Pod } }[];
  };
  for (const { metadata, spec } of deployments.items)
    await add(metadata.name, withValues(spec.template, { "metadata.name": `${metadata.name}-x` }), NAMESPACE);
  for (const what of ["everything a workload can ask for", "a warm pod", "an allowlist", "the helper pod"]) {
    const pod = renderedPods.find((one) => one.what === what)?.pod;
    assert.ok(pod, what);
    await add(what, pod, NAMESPACE);
  }
  const containers = [{ name: "c", image: "simulated/hello:1" }];
  const other = { metadata: { name: "other" }, spec: { containers } };
  await add("another pod", other as Pod, NAMESPACE);
  const builder = withValues(other, { "metadata.labels": { "tenancy.dev/build": "true" } });
  await add("a builder", builder as Pod, BUILDS);
  assert.is(deployments.items.length, 4);
  assert.is(cast.size, 10);

  const probe = await refusal(client, kind("another pod"), { what: "", body: {}, by: "/resize" });
  knowsResize = probe !== undefined && !/not find/.test(probe);
});

async function apply(components: string[]): Promise<void> {
  const overlay = await writeOverlay({
    // Pod Security off, so that whatever is refused is refused by RBAC or the policies.
    components: ["split-edge", "front-door", "egress", "builds", ...components],
    ...(!versionAtLeast(version, "1.21") && { without: ["PodDisruptionBudget"] }),
  });
  await kubectl("apply", "-k", overlay.path, validation(version));
  await overlay.remove();
}

function subject(account: string): string {
  return `--serviceaccount=${NAMESPACE}:${account === "default" ? account : `tenancy-${account.replace("tenancy-", "")}`}`;
}

async function add(what: string, pod: Pod, namespace: string): Promise<void> {
  const placed = withValues(pod, { "metadata.namespace": namespace });
  cast.set(what, await tenancy.client.create(pods, placed));
}

function kind(what: string): Pod {
  const pod = cast.get(what);
  assert.ok(pod, what);
  return pod;
}

function account(name: string): AccountClient {
  const client = accounts.get(name);
  assert.ok(client, name);
  return client;
}

function isInstance({ metadata }: Pod): boolean {
  return metadata.labels?.[label.managed] === "true" && metadata.name.startsWith("inst-");
}

test.after(async () => {
  for (const client of accounts.values()) client.close();
  await tenancy?.stop();
});

test("RBAC alone: no account of the edge changes what a pod runs, or who owns it", async () => {
  const taken: string[] = [];
  for (const name of EDGES) {
    for (const [what, pod] of cast) {
      for (const change of changesOf(pod)) {
        for (const by of SUBRESOURCES) {
          const refused = await refusal(account(name), pod, { ...change, by });
          if (refused === undefined) taken.push(`${change.what} by pods${by}`);
          else if (refused !== "ignored") assert.match(refused, /forbidden|not find/, `${name} ${what} ${change.what}`);
        }
      }
    }
  }
  // As docs/explanation/isolation.md says. A status takes labels, annotations and finalizers with it.
  assert.equal([...new Set(taken)].sort(), [
    "address by pods/status",
    "annotation by pods/status",
    "app label by pods/status",
    "claim by pods/status",
    "finalizer by pods/status",
    "label by pods/status",
    "managed by pods/status",
    "phase by pods/status",
    "tenant by pods/status",
  ]);
});

test("RBAC alone: each account of the edge records the use of an instance, the namespace's default one nothing", async () => {
  for (const name of EDGES) {
    for (const change of uses) {
      const instance = kind("everything a workload can ask for");
      const refused = await refusal(account(name), instance, { ...change, by: "/status" });
      if (name === "default") assert.match(refused ?? "taken", /forbidden/);
      else assert.is(refused, undefined, name);
    }
  }
});

test("as docs/how-to/upgrade.md says, edges of the last release record uses in the pod itself until they are replaced", async () => {
  const record = (name: string) =>
    refusal(account(name), kind("a warm pod"), { ...uses[0], by: "" } as Change & { by: string });
  const said = (text: RegExp) =>
    runPageCommands("docs/how-to/upgrade.md", text, { folder: root, kubeconfigPath: tenancy.cluster.kubeconfigPath });
  await said(/create role tenancy-activity-before/);
  for (const name of ["tenancy-edge", "tenancy-api", "tenancy-gateway"])
    await eventually(async () => (await record(name)) === undefined);
  await said(/delete rolebinding,role tenancy-activity-before/);
  for (const name of ["tenancy-edge", "tenancy-api", "tenancy-gateway"])
    await eventually(async () => /forbidden/.test((await record(name)) ?? ""));
});

const { version: found } = await findBinaries({ need: CONTROL_PLANE_PROGRAMS });
const underPolicies: typeof test.skip = versionAtLeast(found, "1.30") ? test : test.skip;

underPolicies("the policies hold accounts that may write every pod by RBAC", async () => {
  await kubectl("apply", "-k", "manifests/overlays/builds-with-admission", validation(version));
  await apply(["admission"]);
  const all = ["pods", ...SUBRESOURCES.filter((name) => name !== "").map((name) => `pods${name}`)].join(",");
  await kubectl("-n", NAMESPACE, "create", "role", "all", "--verb=create,get,patch,delete", `--resource=${all}`);
  await kubectl("-n", NAMESPACE, "create", "rolebinding", "all", "--role=all", ...EDGES.map(subject));
  // The API server takes rules and policies up within seconds.
  for (const name of EDGES) {
    for (const by of SUBRESOURCES.filter((name) => knowsResize || name !== "/resize")) {
      const change = { what: "label", body: metadata({ labels: { theirs: "1" } }), by };
      await eventually(async () =>
        /tenancy-pod-accounts/.test((await refusal(account(name), kind("another pod"), change)) ?? ""),
      );
    }
  }
});

underPolicies("nothing but the record of an instance's use is taken", async () => {
  const taken: string[] = [];
  for (const name of EDGES) {
    for (const [what, pod] of cast) {
      for (const change of [...changesOf(pod), ...uses]) {
        for (const by of SUBRESOURCES) {
          const refused = await refusal(account(name), pod, { ...change, by });
          const mayBe = isInstance(pod) && uses.includes(change);
          if (refused === undefined && !mayBe) taken.push(`${name}: ${change.what} of ${what} by pods${by}`);
          if (mayBe && (by === "" || by === "/status")) assert.is(refused, undefined, `${name}: ${what}`);
        }
      }
    }
  }
  assert.equal(taken, []);
});

underPolicies("the time of a use is changed again, and what is in flight is taken back", async () => {
  const { name, namespace } = kind("a warm pod").metadata;
  const write = (body: object) =>
    account("tenancy-proxy").patch(pods, { namespace, name }, { type: "merge", subresource: "status", body });
  const key = `${IN_FLIGHT_PREFIX}x`;
  await write(metadata({ annotations: { [annotation.lastActivity]: "2026-01-01T00:00:00Z", [key]: "a" } }));
  await write(metadata({ annotations: { [annotation.lastActivity]: "2026-01-01T00:00:01Z", [key]: null } }));
  const written = await tenancy.client.get(pods, { namespace, name });
  const { annotations = {} } = written.metadata;
  assert.is(annotations[annotation.lastActivity], "2026-01-01T00:00:01Z");
  assert.not(key in annotations);
  const together = { what: "both", body: withValues(uses[0]?.body ?? {}, { "metadata.labels": { theirs: "1" } }) };
  const refused = await refusal(account("tenancy-proxy"), written, { ...together, by: "/status" });
  assert.match(refused ?? "taken", /tenancy-pod-accounts/);
});

underPolicies("instances alone are deleted, and no pod is made", async () => {
  for (const name of EDGES) {
    for (const [what, pod] of cast) {
      if (pod.metadata.namespace !== NAMESPACE) continue;
      const refused = await deletion(account(name), pod);
      if (isInstance(pod)) assert.is(refused, undefined, `${name}: ${what}`);
      else assert.match(refused ?? "taken", /tenancy-pod-accounts/, `${name}: ${what}`);
    }
    const made = withValues(kind("another pod"), { metadata: { name: "made", namespace: NAMESPACE } });
    const refused = await reasonOf(account(name).create(pods, made, { dryRun: true }));
    assert.match(refused ?? "taken", /tenancy-pod-accounts/);
  }
});

underPolicies("the operator changes and deletes what it made", async () => {
  const operator = account("tenancy-operator");
  const change = { what: "tenant", body: metadata({ labels: { [label.tenant]: "bob" } }), by: "" };
  for (const what of ["everything a workload can ask for", "a warm pod", "the helper pod"]) {
    assert.is(await refusal(operator, kind(what), change), undefined, what);
    assert.is(await deletion(operator, kind(what)), undefined, what);
  }
});

test.run();
