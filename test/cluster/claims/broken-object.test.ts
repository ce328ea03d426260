import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
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

function untilWorkload(name: string, phase: string) {
  return tenancy.until(`workload ${name} is ${phase}`, async () => {
    const workload = await tenancy.client.get(workloads, { namespace: NAMESPACE, name });
    return workload.status?.phase === phase && workload;
  });
}

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
  const walled = await untilWorkload("walled", "Error");
  assert.is(walled.status?.reason, "EgressProxyUnavailable");
  const refused = await tenancy.createClaim("bob", "walled");
  const failed = await tenancy.untilClaim(refused.metadata.name, { phase: "Error" });
  assert.is(failed.status?.reason, "WorkloadNotReady");
  assert.match(failed.status?.message ?? "", /TENANCY_PROXY_IMAGE/);
  await second.stop();
});

test.run();
