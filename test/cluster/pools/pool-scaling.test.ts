import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pools } from "../../../crds/kinds.ts";
import type { Pool, PoolSpec } from "../../../crds/pool.ts";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { versionAtLeast } from "../../../scripts/cluster/kubernetes/version-at-least.ts";
import { kubectlFor } from "../isolation/kubectl.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("a pool that scales by itself");
let tenancy: Tenancy;
let operator: RunningOperator;

test.before(async () => {
  tenancy = await startTenancy("test-pool-scaling");
  operator = tenancy.startOperator();
  await tenancy.createWorkload("hello");
});
test.after(() => tenancy?.stop());

const edit = (name: string, spec: { [Field in keyof PoolSpec]?: PoolSpec[Field] | null }) =>
  tenancy.client.patch(pools, { namespace: NAMESPACE, name }, { type: "merge", body: { spec } });
const said = ({ status }: Pool) => `${status?.desired} ${status?.scaling?.reason}`;
const untilSaid = (name: string, words: string) => tenancy.untilPool(name, (pool) => said(pool) === words);
const claimAll = async (tenants: readonly string[], workload: string) => {
  await Promise.all(tenants.map((tenant) => tenancy.createClaim(tenant, workload)));
  for (const tenant of tenants) await tenancy.untilClaim(`claim-${tenant}-${workload}`, { phase: "Active" });
};

test("grows from nothing when a claim misses it, and says why", async () => {
  await tenancy.createWorkload("rare");
  await tenancy.createPool("rare", { workloadRef: "rare", maxSize: 5, minSize: 0 });
  await tenancy.untilPool("rare", (pool) => said(pool) === "0 MinSize" && pool.status?.phase === "Ready");
  await claimAll(["z"], "rare");
  // One or two: that depends on how long its first pod takes to start.
  const grown = await tenancy.untilPool("rare", ({ status }) => (status?.ready ?? 0) >= 1);
  assert.ok((grown.status?.desired ?? 0) >= 1);
  assert.match(grown.status?.scaling?.message ?? "", /warm pod/);
  await tenancy.until("an Event", async () => {
    return (await tenancy.eventsOf("rare")).some(({ reason, type }) => reason === "GrownByMiss" && type === "Normal");
  });
  await tenancy.release("claim-z-rare");
});

test("grows with its claims, says why, and never exceeds maxSize", async () => {
  let most = 0;
  const stop = tenancy.onPodChange(() => {
    most = Math.max(most, tenancy.members("hello").length);
  });
  await tenancy.createPool("hello", { workloadRef: "hello", maxSize: 5, target: { idlePercent: 50 } });
  await tenancy.untilPool("hello", (pool) => said(pool) === "1 MinSize" && pool.status?.ready === 1);
  await claimAll([..."abcd"], "hello");
  await tenancy.untilPool("hello", ({ status }) => (status?.ready ?? 0) >= 4);
  await claimAll([..."efghi"], "hello");
  const full = await tenancy.untilPool("hello", (pool) => said(pool) === "5 MaxSize" && pool.status?.ready === 5);
  assert.match(full.status?.scaling?.message ?? "", /raise spec\.maxSize/);
  assert.is(full.status?.scaling?.minSize, 1);
  await tenancy.until("an Event", async () => {
    return (await tenancy.eventsOf("hello")).some(({ reason }) => reason === "MaxSizeReached");
  });
  stop();
  assert.ok(most <= 5, `${most} pods`);
  assert.equal(
    full.spec,
    { workloadRef: "hello", maxSize: 5, target: { idlePercent: 50 }, maxFillConcurrency: 5 },
    "the operator writes no spec",
  );
});

test("a new leader does not shrink it at once, though the claims that it grew for are gone", async () => {
  for (const { metadata } of tenancy.claims.store.values()) await tenancy.deleteClaim(metadata.name);
  for (const tenant of "abcdefghi") await tenancy.untilGone(`claim-${tenant}-hello`);
  await operator.stop();
  operator = tenancy.startOperator();
  await edit("hello", { maxFillConcurrency: 4 });
  await tenancy.untilPool("hello", ({ metadata, status }) => status?.observedGeneration === metadata.generation);
  await untilSaid("hello", "5 ScaleDownLater");
  assert.is(tenancy.members("hello").length, 5);
});

test("shrinks once scaleDownAfterSeconds have passed", async () => {
  await edit("hello", { scaleDownAfterSeconds: 1 });
  await untilSaid("hello", "1 MinSize");
  await tenancy.until("one pod", () => tenancy.members("hello").length === 1);
});

test("the schedule's minSize takes effect", async () => {
  // Each minute, so the last time is at most a minute ago.
  await edit("hello", { schedule: [{ cron: "* * * * *", timezone: "Europe/Berlin", minSize: 3 }] });
  const { status } = await untilSaid("hello", "3 Schedule");
  assert.is(status?.scaling?.minSize, 3);
  await tenancy.untilPool("hello", (pool) => pool.status?.ready === 3 && pool.status.phase === "Ready");
  await edit("hello", { schedule: null });
  await untilSaid("hello", "1 MinSize");
});

test("a smaller maxSize is obeyed at once", async () => {
  await edit("hello", { minSize: 4 });
  await tenancy.untilPool("hello", (pool) => said(pool) === "4 MinSize" && pool.status?.ready === 4);
  await edit("hello", { minSize: 1, maxSize: 2, scaleDownAfterSeconds: 86_400 });
  await untilSaid("hello", "2 ScaleDownLater");
  await tenancy.until("two pods", () => tenancy.members("hello").length === 2);
});

test("kubectl scale is refused with words, as are both sizes and none", async () => {
  const { version } = await findBinaries({ need: ["kube-apiserver"] });
  if (!versionAtLeast(version, "1.25")) return;
  const words = /give exactly one of size, for a fixed number of pods, and maxSize/;
  const refused = (change: Promise<unknown>) =>
    change.then(
      () => "",
      (error: Error) => error.message,
    );
  const scale = { type: "merge", subresource: "scale", body: { spec: { replicas: 3 } } } as const;
  assert.match(await refused(tenancy.client.patch(pools, { namespace: NAMESPACE, name: "hello" }, scale)), words);
  const kubectl = await kubectlFor(tenancy.cluster.kubeconfigPath);
  const scaled = kubectl("--namespace", NAMESPACE, "scale", "tenancypool", "hello", "--replicas=3");
  assert.match(await refused(scaled), words);
  assert.match(await refused(edit("hello", { size: 3 })), words);
  assert.match(
    await refused(edit("hello", { maxSize: null, minSize: null, target: null, scaleDownAfterSeconds: null })),
    words,
  );
});

test("it gets a fixed size, which kubectl scale changes, and scales by itself again from there", async () => {
  await edit("hello", { size: 3, maxSize: null, minSize: null, target: null, scaleDownAfterSeconds: null });
  const fixed = await tenancy.untilPool("hello", ({ status }) => status?.ready === 3 && status.phase === "Ready");
  assert.equal([fixed.status?.desired, fixed.status?.scaling], [3, undefined]);
  const scale = { type: "merge", subresource: "scale", body: { spec: { replicas: 4 } } } as const;
  await tenancy.client.patch(pools, { namespace: NAMESPACE, name: "hello" }, scale);
  await tenancy.untilPool("hello", ({ status }) => status?.ready === 4 && status.desired === 4);
  await edit("hello", { size: null, maxSize: 6 });
  await untilSaid("hello", "4 ScaleDownLater");
});

test.run();
