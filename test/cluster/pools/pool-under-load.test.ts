import { suite } from "uvu";
import * as assert from "uvu/assert";
import { workloads } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { startDyingOperator } from "../dying-operator.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("pool under load");
const SIZE = 15;
let tenancy: Tenancy;

test.before(async () => {
  tenancy = await startTenancy("test-pool-under-load");
});
test.after(() => tenancy?.stop());

async function fill(pool: string): Promise<void> {
  await tenancy.createWorkload(pool);
  await tenancy.createPool(pool, { workloadRef: pool, size: SIZE, maxFillConcurrency: 10 });
  await tenancy.until(`${pool} full`, () => tenancy.members(pool, "ready").length === SIZE);
}

const templateOf = (pod: { metadata: { annotations?: Record<string, string> } } | undefined) =>
  pod?.metadata.annotations?.[annotation.templateHash];

test("a workload changed under load: the pool rolls, no claim fails, and none gets an old pod once a new one is ready", async () => {
  const operator = tenancy.startOperator();
  await fill("rolling");
  const old = templateOf(tenancy.members("rolling")[0]);
  const wrong: string[] = [];
  const tenants = Array.from({ length: 40 }, (_, index) => `t${index}`);
  for (const [index, tenant] of tenants.entries()) {
    if (index === 10) {
      const body = { spec: { entrypoint: { env: { VERSION: "2" } } } };
      await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "rolling" }, { type: "merge", body });
    }
    const newBefore = newReady(old);
    await tenancy.createClaim(tenant, "rolling");
    const claim = await tenancy.untilClaim(
      `claim-${tenant}-rolling`,
      ({ status } = none) => status?.phase === "Active" || status?.phase === "Error",
    );
    assert.is(claim.status?.phase, "Active", JSON.stringify(claim.status));
    const given = await tenancy.until("the watch of pods shows the one that was given", () => {
      const pod = tenancy.pods.store.get(`${NAMESPACE}/${claim.status?.instanceId}`);
      return pod?.metadata.annotations?.[annotation.claimUid] === claim.metadata.uid && pod;
    });
    // One that was taken meanwhile was not there to be given.
    const newAfter = newReady(old);
    if (templateOf(given) === old && newBefore.some((name) => newAfter.includes(name))) wrong.push(tenant);
  }
  assert.equal(wrong, []);
  await tenancy.until(
    "rolled",
    () =>
      tenancy.members("rolling", "ready").filter((pod) => templateOf(pod) !== old).length === SIZE &&
      tenancy.members("rolling").length === SIZE,
  );
  await operator.stop();
});

const none = { metadata: { name: "" }, spec: { tenantId: "", workloadRef: "" } };

/** The ready pods of another template than the old one. */
function newReady(old: string | undefined): string[] {
  const members = tenancy.members("rolling", "ready").filter((pod) => templateOf(pod) !== old);
  return members.map(({ metadata }) => metadata.name);
}

test("an operator killed with SIGKILL in a burst: every claim is Active in the end, each with one pod, and none is left over", async () => {
  const filler = tenancy.startOperator();
  await fill("burst");
  await filler.stop();
  const dying = startDyingOperator(tenancy.cluster.kubeconfigPath, 30);
  const tenants = Array.from({ length: 50 }, (_, index) => `t${index}`);
  await tenancy.until("it leads", async () => ((await tenancy.leader()) ?? "").startsWith("dies-"));
  const made = Promise.all(tenants.map((tenant) => tenancy.createClaim(tenant, "burst")));
  made.catch(() => undefined); // It is waited for below.
  assert.is(await dying.exited, "SIGKILL");
  await made;
  const successor = tenancy.startOperator();
  const active = await Promise.all(
    tenants.map((tenant) => tenancy.untilClaim(`claim-${tenant}-burst`, { phase: "Active" })),
  );
  assert.is(new Set(active.map((claim) => claim.status?.instanceId)).size, tenants.length);
  await tenancy.until("each has its one pod, and the pool is full", () => {
    const alive = [...tenancy.pods.store.values()].filter(
      ({ metadata }) =>
        metadata.deletionTimestamp === undefined && metadata.labels?.["tenancy.dev/workload"] === "burst",
    );
    return (
      alive.length === tenants.length + SIZE &&
      tenancy.members("burst", "ready").length === SIZE &&
      active.every(
        (claim) =>
          alive.filter(({ metadata }) => metadata.annotations?.[annotation.claimUid] === claim.metadata.uid).length ===
          1,
      )
    );
  });
  await successor.stop();
});

test.run();
