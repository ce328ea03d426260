// @own-cluster
// @limit 900
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseAllDocuments } from "yaml";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { type ControlPlane, startControlPlane } from "../../../scripts/cluster/control-plane.ts";
import { versionAtLeast } from "../../../scripts/cluster/kubernetes/version-at-least.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";
import { KUBERNETES_VERSION } from "../../../scripts/cluster/sources/binaries-source.ts";
import { eventually } from "../../eventually.ts";
import { kubectlFor, type RunKubectl, validation } from "./kubectl.ts";
import { writeOverlay } from "./write-overlay.ts";

const test = suite("manifests on a real API server");
const root = new URL("../../..", import.meta.url).pathname;
const binaries = await findBinaries({ need: CONTROL_PLANE_PROGRAMS });
const { version } = binaries;
let cluster: ControlPlane;
let kubectl: RunKubectl;

interface Listed {
  items: { kind: string; metadata: Record<"name" | "uid" | "generation" | "resourceVersion", string> }[];
}

/** What is looked at of an object that a kustomization has put into a namespace. */
interface Placed {
  kind: string;
  metadata: { name: string };
  spec?: {
    template: {
      spec: { containers: { envFrom?: { configMapRef?: { name: string }; secretRef?: { name: string } }[] }[] };
    };
  };
  subjects?: { namespace: string }[];
}

test.before(async () => {
  cluster = await startControlPlane({
    name: `test-manifests-${process.pid}`,
    binaries,
  });
  kubectl = await kubectlFor(cluster.kubeconfigPath);
});
test.after(() => cluster?.stop());

async function checkTree(tree: string): Promise<void> {
  const first = await applied(tree);
  assert.ok(first.length > 1);
  assert.equal(await applied(tree), first);
}

/** Applies a tree, and returns of each object what an apply that changes anything changes. */
async function applied(tree: string): Promise<string[]> {
  const { items } = JSON.parse(await kubectl("apply", "-k", tree, validation(version), "-o", "json")) as Listed;
  return items.map(({ kind, metadata }) => {
    const { name, uid, generation, resourceVersion } = metadata;
    return `${kind} ${name} ${uid} ${generation ?? resourceVersion}`;
  });
}

if (versionAtLeast(version, "1.21")) {
  for (const tree of ["manifests/base", "manifests/overlays/split-edge", "manifests/builds", "manifests/keys"])
    test(`${tree} is taken with every field known, and applied again it changes nothing`, () => checkTree(tree));
} else {
  test("a server before 1.21 takes all but the disruption budgets", async () => {
    const tree = await writeOverlay({ components: ["split-edge"], without: ["PodDisruptionBudget"] });
    await checkTree(tree.path);
    await tree.remove();
    const reason = await kubectl("apply", "-k", "manifests/base", validation(version)).catch(String);
    assert.match(reason, 'no matches for kind "PodDisruptionBudget" in version "policy/v1"');
  });
}

if (versionAtLeast(version, "1.30")) {
  for (const tree of ["manifests/overlays/with-admission", "manifests/overlays/builds-with-admission"])
    test(`${tree} is taken likewise`, () => checkTree(tree));

  test("a kustomization of one's own can put all of it into another namespace", async () => {
    const tree = await writeOverlay({
      namespace: "tenants",
      components: [
        "split-edge",
        "front-door",
        "front-door-public",
        "front-door-ingress",
        "admission",
        "egress",
        "builds",
        "keys",
        "object-storage",
      ],
    });
    await kubectl("apply", "-k", tree.path, validation(version));
    await tree.remove();
    const kinds = "deployments,serviceaccounts,roles,rolebindings";
    const { items } = JSON.parse(await kubectl("-n", "tenants", "get", kinds, "-o", "json")) as { items: Placed[] };
    const ofKind = (wanted: string) => items.filter(({ kind }) => kind === wanted);
    for (const kind of ["Deployment", "ServiceAccount", "Role"]) {
      const own = kind === "Deployment" ? "tenancy-edge" : "tenancy-api";
      const found = ofKind(kind).map(({ metadata }) => metadata.name);
      assert.equal(found, [own, "tenancy-gateway", "tenancy-operator", "tenancy-proxy"], kind);
    }
    assert.equal(
      ofKind("RoleBinding").flatMap(({ subjects = [] }) => subjects.map(({ namespace }) => namespace)),
      ["tenants", "tenants", "tenants", "tenants"],
    );
    for (const name of ["tenancy-operator", "tenancy-edge", "tenancy-proxy"]) {
      const deployment = ofKind("Deployment").find(({ metadata }) => metadata.name === name);
      const sources = deployment?.spec?.template.spec.containers.flatMap(({ envFrom = [] }) => envFrom) ?? [];
      // The front door has credentials of its own.
      const credentials = name === "tenancy-proxy" ? "tenancy-object-storage-names" : "tenancy-object-storage";
      assert.equal(
        sources.flatMap(({ configMapRef }) => configMapRef?.name ?? []),
        ["tenancy-object-storage"],
        name,
      );
      assert.equal(
        sources.flatMap(({ secretRef }) => secretRef?.name ?? []),
        [credentials],
        name,
      );
    }
    const labels = ["-o", "jsonpath={.metadata.labels}"];
    assert.equal(JSON.parse(await kubectl("get", "namespace", "tenants", ...labels)), {
      "app.kubernetes.io/part-of": "tenancy",
      "kubernetes.io/metadata.name": "tenants",
      "pod-security.kubernetes.io/enforce": "privileged",
      "tenancy.dev/admission": "enforced",
    });
  });

  test("the HTTPRoute before the front door is one of the Gateway API's, every field of it", async () => {
    const definition = join(import.meta.dirname, "httproute-crd.yaml");
    await kubectl("apply", "-f", definition, validation(version));
    const all = ["get", "httproutes.v1.gateway.networking.k8s.io"];
    await eventually(() =>
      kubectl(...all).then(
        () => true,
        () => false,
      ),
    );
    const tree = await writeOverlay({ namespace: "routes", components: ["front-door", "front-door-httproute"] });
    await kubectl("create", "namespace", "routes");
    try {
      await checkTree(tree.path);
    } finally {
      await tree.remove();
    }
    const badly = '{"spec":{"rules":[{"timeouts":{"request":"for ever"}}]}}';
    const patched = await kubectl(
      "-n",
      "routes",
      "patch",
      "httproute",
      "tenancy-proxy",
      "--type=merge",
      "-p",
      badly,
    ).catch(String);
    assert.match(patched, "spec.rules[0].timeouts.request: Invalid value");
  });
}

test("monitoring comes into the namespace that a kustomization says; the board keeps its name and label", async () => {
  const tree = await writeOverlay({ namespace: "tenants", components: ["monitoring"] });
  const built = await kubectl("kustomize", tree.path).finally(tree.remove);
  const objects = parseAllDocuments(built).map((one) => one.toJS());
  const found = objects.filter(
    ({ kind, metadata }) =>
      /^(ServiceMonitor|PrometheusRule)$/.test(kind) || metadata.labels?.grafana_dashboard === "1",
  );
  assert.equal(
    found.map(({ kind, metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`),
    ["ConfigMap tenants/tenancy-board", "PrometheusRule tenants/tenancy", "ServiceMonitor tenants/tenancy"],
  );
  const board = JSON.parse(await readFile(join(root, "manifests/components/monitoring/board.json"), "utf8"));
  assert.equal(JSON.parse(found[0]?.data["tenancy.json"]), board);
});

test("the images have the versions that this project is tried with", async () => {
  const edge = await readFile(join(root, "manifests/images/edge.Dockerfile"), "utf8");
  const { dependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  assert.match(edge, `FROM oven/bun:${dependencies.bun}-slim`);
  assert.match(edge, `ARG KUBECTL_VERSION=${KUBERNETES_VERSION}\n`);
});

test.run();
