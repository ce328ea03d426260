// @own-cluster
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { customResourceDefinitions, installDefinitions } from "../../../crds/definitions/install-definitions.ts";
import { workloads } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("objects that cannot be handled");
let tenancy: Tenancy;

test.before(async () => {
  tenancy = await startTenancy("test-broken-object");
});
test.after(() => tenancy?.stop());

const egress = { image: "simulated/proxy:1", openedRanges: [], extraAuthorities: "" };

test("a workload that no pod can be rendered of any longer, and a pod that cannot be read, stop no operator from leading", async () => {
  const first = tenancy.startOperator({ config: { egress }, identity: "first" });
  const filesystem = { overlayDirs: ["/data"] };
  await tenancy.createWorkload("walled", {
    filesystem,
    network: { access: "restricted", allowlist: ["example.com"] },
  });
  await tenancy.createWorkload("kept", { filesystem });
  await tenancy.createPool("walled", { workloadRef: "walled", size: 2 });
  await tenancy.createPool("kept", { workloadRef: "kept", size: 2 });
  const ready = (pool: string) => tenancy.members(pool, "ready").length === 2;
  await tenancy.until("both pools are full", () => ready("walled") && ready("kept"));
  await first.stop();
  const [broken] = tenancy.members("kept");
  await tenancy.client.patch(
    pods,
    { namespace: NAMESPACE, name: broken?.metadata.name ?? "" },
    { type: "merge", body: { metadata: { annotations: { [annotation.overlayDirs]: "[" } } } },
  );

  const second = tenancy.startOperator({ identity: "second" });
  const claim = await tenancy.createClaim("alice", "kept");
  await tenancy.untilClaim(claim.metadata.name, { phase: "Active" });
  assert.is(await tenancy.leader(), "second");
  const walled = await tenancy.untilWorkload("walled", ({ status }) => status?.phase === "Error");
  assert.is(walled.status?.reason, "EgressProxyUnavailable");
  const refused = await tenancy.createClaim("bob", "walled");
  const failed = await tenancy.untilClaim(refused.metadata.name, { phase: "Error" });
  assert.is(failed.status?.reason, "WorkloadNotReady");
  assert.match(failed.status?.message ?? "", /TENANCY_PROXY_IMAGE/);
  await second.stop();
});

test("a workload that was stored before a rule refuses it is in Error with what to change; its claim keeps its pod, and it can be mended", async () => {
  const operator = tenancy.startOperator({ identity: "third" });
  await tenancy.createWorkload("older", { filesystem: { overlayDirs: ["/data"] } });
  const claim = await tenancy.createClaim("alice", "older");
  const { status } = await tenancy.untilClaim(claim.metadata.name, { phase: "Active" });
  const definition = { name: "tenancyworkloads.tenancy.dev" };
  const { spec } = await tenancy.client.get(customResourceDefinitions, definition);
  const loosened = JSON.stringify(spec, (key, value: unknown) =>
    key === "x-kubernetes-validations" ? undefined : value,
  );
  await tenancy.client.patch(customResourceDefinitions, definition, {
    type: "merge",
    body: { spec: JSON.parse(loosened) },
  });
  const ref = { namespace: NAMESPACE, name: "older" };
  const nested = { filesystem: { overlayDirs: ["/data", "/data/sub"] }, network: { allowlist: ["a.b"] } };
  await tenancy.until("the rules are gone", () =>
    tenancy.client.patch(workloads, ref, { type: "merge", body: { spec: nested } }).catch(() => undefined),
  );
  const { status: told } = await tenancy.untilWorkload("older", ({ status }) => status?.phase === "Error");
  assert.is(told?.reason, "Invalid");
  assert.match(told?.message ?? "", /overlayDirs\[1\]: \/data\/sub lies inside \/data/);
  assert.match(told?.message ?? "", /spec\.network\.allowlist: takes effect only under access restricted/);
  await installDefinitions(tenancy.client);
  const refused = await tenancy.createClaim("bob", "older");
  const failed = await tenancy.untilClaim(refused.metadata.name, { phase: "Error" });
  assert.match(failed.status?.message ?? "", /lies inside/);
  assert.is(
    (await tenancy.untilClaim(claim.metadata.name, { phase: "Active" })).status?.instanceId,
    status?.instanceId,
  );
  const mended = { filesystem: { overlayDirs: ["/data"] }, network: { allowlist: null } };
  await tenancy.client.patch(workloads, ref, { type: "merge", body: { spec: mended } });
  await tenancy.untilWorkload("older", ({ status }) => status?.phase === "Ready");
  await operator.stop();
});

test.run();
