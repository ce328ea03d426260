import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { root, runPageCommands } from "../../page-commands.ts";
import { kubectlFor, type RunKubectl } from "../isolation/kubectl.ts";
import { recordSaves } from "../snapshots/recorded-saves.ts";
import { exists, NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("docs/how-to/empty-a-node.md: before a node goes");
let tenancy: Tenancy;
let kubectl: RunKubectl;
let saved: string[];
let node: string;
/** Claims on the node, and those on the other one. */
const there: Claim[] = [];
const elsewhere: Claim[] = [];

const podsOn = async (name: string) =>
  (await tenancy.client.list(pods, { namespace: NAMESPACE })).items.filter(({ spec }) => spec.nodeName === name);
const nodeOf = async (name: string) => (await tenancy.client.get(pods, { namespace: NAMESPACE, name })).spec.nodeName;
const run = (which: RegExp) => {
  const { kubeconfigPath } = tenancy.cluster;
  return runPageCommands("docs/how-to/empty-a-node.md", which, { folder: root, kubeconfigPath, environment: { node } });
};

test.before(async () => {
  tenancy = await startTenancy("test-node-drained");
  kubectl = await kubectlFor(tenancy.cluster.kubeconfigPath);
  const recorder = await recordSaves(tenancy);
  saved = recorder.saved;
  tenancy.startOperator({ snapshots: recorder.snapshots });
  const filesystem = { overlayDirs: ["/data"] };
  for (const name of ["app", "cold"]) await tenancy.createWorkload(name, { filesystem });
  await tenancy.createPool("app", { workloadRef: "app", size: 4 });
  const helper = { namespace: NAMESPACE, name: SNAPSHOTS_NAME };
  node = await tenancy.until("the helper pod on a node", async () =>
    (await exists(tenancy.client, pods, SNAPSHOTS_NAME))
      ? (await tenancy.client.get(pods, helper)).spec.nodeName
      : false,
  );
  await tenancy.until("the pool to be full", () => tenancy.members("app", "ready").length === 4);
  // Pods that no pool has made before go to the nodes in turn.
  for (const tenant of ["a", "b", "c", "d"]) {
    const { metadata } = await tenancy.createClaim(tenant, "cold");
    const claim = await tenancy.untilClaim(metadata.name, { phase: "Active" });
    ((await nodeOf(claim.status?.instanceId ?? "")) === node ? there : elsewhere).push(claim);
  }
  assert.equal([there.length, elsewhere.length], [2, 2]);
});
test.after(() => tenancy?.stop());

test("drain alone refuses, as it does after the first step", async () => {
  const drain = () => kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s");
  assert.match(await drain().catch(String), /cannot delete .*that declare no controller.*tenancy\/inst-/);
  await run(/delete pods -l tenancy\.dev\/pool/);
  await tenancy.until("the pool full elsewhere", async () => {
    const warm = tenancy.members("app", "ready");
    return warm.length === 4 && warm.every(({ spec }) => spec.nodeName !== node);
  });
  assert.match(await drain().catch(String), /cannot delete .*that declare no controller.*tenancy\/inst-/);
});

test("then its sessions are released with their files, and nobody else's", async () => {
  await run(/-L tenancy\.dev\/tenant/);
  await run(/delete tenancyclaims/);
  for (const { metadata } of there) await tenancy.untilGone(metadata.name);
  assert.equal(saved.sort(), there.map(({ status }) => status?.instanceId).sort());
  for (const claim of elsewhere) {
    const { status } = await tenancy.untilClaim(claim.metadata.name, { phase: "Active" });
    assert.is(status?.instanceId, claim.status?.instanceId);
  }
});

test("then the node is drained, and the helper pod and the tenants' next pods are elsewhere", async () => {
  await run(/helper\(\)/);
  assert.equal(await podsOn(node), []);
  await tenancy.until("the helper pod elsewhere", async () =>
    (await exists(tenancy.client, pods, SNAPSHOTS_NAME)) ? await nodeOf(SNAPSHOTS_NAME) : false,
  );
  assert.is.not(await nodeOf(SNAPSHOTS_NAME), node);
  const { metadata } = await tenancy.createClaim(there[0]?.spec.tenantId ?? "", "cold");
  const again = await tenancy.untilClaim(metadata.name, { phase: "Active" });
  assert.is.not(await nodeOf(again.status?.instanceId ?? ""), node);
});

test.run();
