// @limit 900
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { leases } from "../../../crds/client/built-in-resources.ts";
import { pause, waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { countedKinds, leastWrites, startDyingOperator } from "../dying-operator.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("operator killed");
let tenancy: Tenancy;
let prepared = 0;

test.before(async () => {
  tenancy = await startTenancy("test-operator-killed");
  const operator = tenancy.startOperator();
  await tenancy.createWorkload("hello");
  const { metadata } = await tenancy.createClaim("first", "hello");
  await tenancy.untilClaim(metadata.name, { phase: "Active" });
  await operator.stop();
});
test.after(() => tenancy?.stop());

/** What is done to the cluster, and what must be so in the end. */
interface Flow {
  name: string;
  image: string;
  release?: true;
  ends: Partial<Claim["status"]> | undefined;
  /** How many pods the claim has ever had. */
  pods: number;
}

const flows: Flow[] = [
  { name: "cold claim", image: "simulated/hello:1", ends: { phase: "Active" }, pods: 1 },
  {
    name: "cold claim of an image that runs as root",
    image: "simulated/root:1",
    ends: { phase: "Active" },
    pods: 2,
  },
  { name: "claim of an image that never pulls", image: "simulated/missing:1", ends: { phase: "Error" }, pods: 1 },
  { name: "release", image: "simulated/hello:1", release: true, ends: undefined, pods: 1 },
];

for (const flow of flows) {
  test(`${flow.name}, killed after each of its writes: its successor finishes, with no pod left over or doubled`, async () => {
    const writes = await undisturbed(flow);
    console.log(`note: ${flow.name}: ${writes.join(", ")}`);
    let died = 0;
    for (const [index, begin] of (await prepare(flow, writes.length)).entries())
      if (await killedAfter(flow, { begin, writes: index + 1 })) died += 1;
    assert.ok(writes.length >= 3 && died >= leastWrites(writes), `${died} died of ${writes.length}`);
  });
}

/** Prepares a flow so many times, and leaves no operator; each of the functions that it returns begins it once. */
async function prepare(flow: Flow, times: number): Promise<(() => Promise<Claim>)[]> {
  const before = tenancy.startOperator();
  const begins = await Promise.all(
    Array.from({ length: times }, async () => {
      const workload = `killed-${++prepared}`;
      await tenancy.createWorkload(workload, { image: { ref: flow.image } });
      await tenancy.untilWorkload(workload, ({ status }) => status?.phase === "Ready");
      const claim = flow.release && (await tenancy.createClaim("alice", workload));
      if (claim) await tenancy.untilClaim(claim.metadata.name, { phase: "Active" });
      return async () => {
        if (!claim) return tenancy.createClaim("alice", workload);
        await tenancy.deleteClaim(claim.metadata.name);
        return claim;
      };
    }),
  );
  await before.stop();
  return begins;
}

async function untilEnded({ ends, pods }: Flow, claim: Claim): Promise<void> {
  const { name } = claim.metadata;
  if (ends === undefined) await tenancy.untilGone(name);
  else await tenancy.untilClaim(name, ends);
  const left = ends?.phase === "Active" ? 1 : 0;
  await tenancy.until(`${left} pods left`, async () => (await tenancy.podsOf(claim)).length === left);
  const ever = await tenancy.everPodsOf(claim);
  assert.is(ever.length, pods, ever.join(" "));
}

/** Every write that an operator makes which nobody kills. */
async function undisturbed(flow: Flow): Promise<string[]> {
  const [begin] = await prepare(flow, 1);
  assert.ok(begin);
  const operator = tenancy.startOperator();
  await untilEnded(flow, await begin());
  await operator.stop();
  const isWrite = ({ verb, resource, status }: RunningOperator["requests"][number]) =>
    ["create", "patch", "update", "delete"].includes(verb) && countedKinds.includes(resource) && status < 300;
  return operator.requests.filter(isWrite).map(({ verb, resource }) => `${verb} ${resource}`);
}

/** @returns whether it died by itself, which it does not where it made fewer writes this time */
async function killedAfter(
  flow: Flow,
  { begin, writes }: { begin: () => Promise<Claim>; writes: number },
): Promise<boolean> {
  const dying = startDyingOperator(tenancy.cluster.kubeconfigPath, writes);
  const claim = await begin();
  const stop = new AbortController();
  const overtaken = waitUntil(() => hasEnded(flow, claim), { what: "its end", limitMs: 120_000, signal: stop.signal })
    .then(() => pause(10_000, stop.signal))
    .then(() => false);
  overtaken.catch(() => undefined);
  const died = await Promise.race([dying.exited.then(() => true), overtaken]);
  stop.abort();
  dying.kill();
  assert.is(await dying.exited, "SIGKILL");
  // That a successor waits for the lease of the dead is shown elsewhere (leader.test.ts).
  await tenancy.client.delete(leases, { namespace: NAMESPACE, name: "tenancy-operator" });

  const successor = tenancy.startOperator();
  await untilEnded(flow, claim);
  await successor.stop();
  return died;
}

function hasEnded({ ends }: Flow, { metadata }: Claim): boolean {
  const phase = tenancy.claims.store.get(`${NAMESPACE}/${metadata.name}`)?.status?.phase;
  return phase === ends?.phase;
}

test.run();
