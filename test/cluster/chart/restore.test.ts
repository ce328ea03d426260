// @own-cluster
import { rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { type ControlPlane, startControlPlane } from "../../../scripts/cluster/control-plane.ts";
import { findHelm } from "../../../scripts/cluster/helm/find-helm.ts";
import { findKubectl } from "../../../scripts/cluster/kubernetes/kubectl.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";
import { eventually } from "../../eventually.ts";
import { root, runPageCommands } from "../../page-commands.ts";
import { kubectlFor, type RunKubectl } from "../isolation/kubectl.ts";
import { writeOverlay } from "../isolation/write-overlay.ts";

const test = suite("docs/how-to/back-up.md: restoring into a new cluster");
let cluster: ControlPlane | undefined;
let kubectl: RunKubectl;
let overlay: Awaited<ReturnType<typeof writeOverlay>>;
let run: (which: RegExp) => Promise<void>;

test.before(async () => {
  overlay = await writeOverlay({ components: ["split-edge", "front-door", "admission"] });
  await symlink(join(root, "manifests"), join(overlay.path, "manifests"));
  const values = { edge: { split: true }, frontDoor: { enabled: true, domain: "apps.example.com" } };
  await writeFile(join(overlay.path, "values.yaml"), JSON.stringify({ ...values, admission: { enabled: true } }));
});
test.before.each(async () => {
  const name = `test-restore-${process.pid}`;
  cluster = await startControlPlane({ name, binaries: await findBinaries({ need: CONTROL_PLANE_PROGRAMS }) });
  const { kubeconfigPath } = cluster;
  kubectl = await kubectlFor(kubeconfigPath);
  const programs = [await findHelm(), await findKubectl()].map(dirname);
  const environment = { HOME: overlay.path, PATH: [...programs, process.env.PATH].join(":") };
  run = (which) =>
    runPageCommands("docs/how-to/back-up.md", which, { folder: overlay.path, kubeconfigPath, environment });
});
test.after.each(async () => {
  await cluster?.stop();
  cluster = undefined;
});
test.after(async () => {
  await cluster?.stop();
  if (overlay !== undefined) await rm(overlay.path, { recursive: true });
});

for (const [tool, makesAll, installs] of [
  ["kustomize", /kubectl kustomize \. >/, /kubectl apply -k \./],
  ["Helm", /helm template/, /helm install/],
] as const) {
  test(`with ${tool} nothing runs before Secrets and archives are there, and the edge comes last`, async () => {
    const get = (...what: string[]) =>
      kubectl("-n", "tenancy", "get", ...what, "-o", "name").then((text) => text.trim());

    await run(makesAll);
    await run(/notin \(tenancy-operator/);
    assert.is(await get("deployments"), "");
    assert.is(await get("roles/tenancy-operator"), "role.rbac.authorization.k8s.io/tenancy-operator");
    const labels = await kubectl("get", "namespace", "tenancy", "-o", "jsonpath={.metadata.labels}");
    assert.is(JSON.parse(labels)["tenancy.dev/admission"], "enforced");
    await eventually(() =>
      get("tenancyclaims").then(
        () => true,
        () => false,
      ),
    );

    await run(/-l app\.kubernetes\.io\/name=tenancy-operator/);
    assert.is(await get("deployments"), "deployment.apps/tenancy-operator");

    await run(installs);
    const deployments = ["edge", "gateway", "operator", "proxy"].map((name) => `deployment.apps/tenancy-${name}`);
    assert.is(await get("deployments"), deployments.join("\n"));
  });
}

test.run();
