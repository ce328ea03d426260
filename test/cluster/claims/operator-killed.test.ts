// @limit 900
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { leases } from "../../../crds/client/built-in-resources.ts";
import { claims, workloads } from "../../../crds/kinds.ts";
import { startDyingOperator } from "../dying-operator.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("operator killed");
let tenancy: Tenancy;
let count = 0;

test.before(async () => {
  tenancy = await startTenancy("test-operator-killed");
  const operator = tenancy.startOperator();
  await tenancy.createWorkload("hello");
  const { metadata } = await tenancy.createClaim("first", "hello");
  await tenancy.untilClaim(metadata.name, { phase: "Active" });
  await operator.stop();
});
test.after(() => tenancy?.stop());

/** What is done to the cluster, how many writes the operator owes to it, and what must be so in the end. */
const flows: {
  name: string;
  image: string;
  writes: string[];
  release?: true;
  ends: Partial<Claim["status"]> | undefined;
  pods: number;
}[] = [
  {
    name: "cold claim",
    image: "simulated/hello:1",
    writes: ["finalizer", "pod created", "Active"],
    ends: { phase: "Active" },
    pods: 1,
  },
  {
    name: "cold claim of an image that runs as root",
    image: "simulated/root:1",
    writes: ["finalizer", "pod created", "root remembered", "incarnation", "pod deleted", "pod created", "Active"],
    ends: { phase: "Active" },
    pods: 2,
  },
  {
    name: "claim of an image that never pulls",
    image: "simulated/missing:1",
    writes: ["finalizer", "pod created", "Error", "pod deleted"],
    ends: { phase: "Error" },
    pods: 1,
  },
  {
    name: "release",
    image: "simulated/hello:1",
    release: true,
    writes: ["Releasing", "pod deleted", "Released", "finalizer removed"],
    ends: undefined,
    pods: 1,
  },
];

for (const flow of flows) {
  for (const [index, write] of flow.writes.entries()) {
    test(`${flow.name}, killed after write ${index + 1} (${write}): its successor finishes, with no pod left over or doubled`, () =>
      killedAfter(flow, index + 1));
  }
}

async function killedAfter(flow: (typeof flows)[number], writes: number): Promise<void> {
  const workload = `killed-${++count}`;
  const before = tenancy.startOperator();
  await tenancy.createWorkload(workload, { image: { ref: flow.image } });
  await tenancy.until("the workload Ready", async () => {
    return (await tenancy.client.get(workloads, { namespace: NAMESPACE, name: workload })).status?.phase === "Ready";
  });
  let claim: Claim | undefined;
  if (flow.release) {
    claim = await tenancy.createClaim("alice", workload);
    await tenancy.untilClaim(claim.metadata.name, { phase: "Active" });
  }
  await before.stop();

  const dying = startDyingOperator(tenancy.cluster.kubeconfigPath, writes);
  claim ??= await tenancy.createClaim("alice", workload);
  const { name } = claim.metadata;
  if (flow.release) await tenancy.client.delete(claims, { namespace: NAMESPACE, name });
  assert.is(await dying.exited, "SIGKILL");
  // That a successor waits for the lease of the dead is shown elsewhere (leader.test.ts).
  await tenancy.client.delete(leases, { namespace: NAMESPACE, name: "tenancy-operator" });

  const successor = tenancy.startOperator();
  if (flow.ends === undefined) await tenancy.untilClaim(name, (found) => found === undefined);
  else await tenancy.untilClaim(name, flow.ends);
  const left = flow.ends?.phase === "Active" ? 1 : 0;
  await tenancy.until(`${left} pods left`, async () => (await tenancy.podsOf(claim as Claim)).length === left);
  const ever = await tenancy.everPodsOf(claim);
  assert.is(ever.length, flow.pods, ever.join(" "));
  await successor.stop();
}

test.run();
