// @limit 2400
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { HELLO_IMAGE } from "../../../scripts/cluster/images/local-images.ts";
import { testAtOnce } from "../../at-once.ts";
import { checkpointCases, prepareCheckpoints } from "./checkpoints.ts";
import { archiveOf, firstOverlayOf } from "./faults.ts";
import { idleCases, prepareIdle, saveWhatWasUsedAgain } from "./idle.ts";
import { launcherCases, launcherTests, prepareLauncher } from "./launcher.ts";
import { type LifeContext, lifeSuite } from "./life-suite.ts";
import { type Lifecycle, NAMESPACE } from "./lifecycle.ts";
import { preparePreSave, preSaveCases } from "./pre-save.ts";
import { prepareHeld, saveAllAfterRestart, unchangedCases } from "./unchanged.ts";

const test = lifeSuite("files over a release and the next claim", {
  name: "lifecycle",
  async prepare(life) {
    const prepared = [prepareIdle(life), preparePreSave(life), prepareLauncher(life), prepareHeld(life)];
    prepared.push(prepareCheckpoints(life));
    await Promise.all([...prepared, life.createWorkload("cold")]);
  },
});

async function keepTenantsApart({ life }: LifeContext): Promise<void> {
  await life.createWorkload("shared");
  await life.createPool("shared", "shared", 2);
  const tenants = ["t", "t.t", "T", "t_t", "t-t", "x".repeat(63)];
  for (let round = 0; round < 2; round += 1) {
    const held = await Promise.all(tenants.map((tenant) => life.claim(tenant, "shared", true)));
    for (const claim of held) {
      const { tenantId } = claim.spec;
      const seen = await life.run(claim.status?.instanceId, "$b ls -A /data; $b cat /data/* 2>/dev/null || :");
      assert.is(seen, round === 0 ? "" : `${tenantId}\nonly ${tenantId}\n`);
      await life.run(claim.status?.instanceId, `echo "only ${tenantId}" > "/data/${tenantId}"`);
    }
    if (round === 0) await Promise.all(held.map(life.release));
  }
}

async function saveWhileItLoops({ life, faults }: LifeContext): Promise<void> {
  const script = "while [ ! -e /data/end ]; do /bin/busybox sleep 0.2; done; exit 1";
  await life.createWorkload("ends", { entrypoint: { cmd: "/bin/busybox", args: ["sh", "-c", script] } });
  const claim = await life.claim("dora", "ends", true);
  await life.run(claim.status?.instanceId, "echo kept > /data/file");
  const [pod] = await faults.podsOf(claim);
  assert.ok(pod);
  // From the node: the end of the container would take a command in it along.
  const end = join(firstOverlayOf(life, pod), "end");
  writeFileSync(end, "");
  const looping = await life.untilClaim(claim, "to loop", (status) => status?.reason === "CrashLooping");
  assert.is(looping.status?.phase, "Active");
  await life.deleteClaim(claim);
  await life.untilClaim(claim, "to fail", (status) => status?.phase === "ReleaseFailed");
  rmSync(end);
  await life.untilGone(claim);
  assert.ok(await archiveOf(life, claim));
}

async function edit({ client }: Lifecycle, name: string, spec: Partial<WorkloadSpec>): Promise<void> {
  await client.patch(workloads, { namespace: NAMESPACE, name }, { type: "merge", body: { spec } });
}

async function deleteWorkload({ life }: LifeContext): Promise<void> {
  await life.createWorkload("deleted");
  const claim = await life.claim("ann", "deleted", true);
  await life.run(claim.status?.instanceId, "echo kept > /data/file");
  await life.client.delete(workloads, { namespace: NAMESPACE, name: "deleted" });
  await life.release(claim);
  await life.untilWorkloadGone("deleted");
  await life.createWorkload("deleted");
  const next = await life.claim("ann", "deleted", true);
  assert.is(await life.kept(next), "kept\n");
}

async function changeWorkload({ life }: LifeContext, what: string, spec: Partial<WorkloadSpec>): Promise<void> {
  const workload = `edited-${what.length}`;
  await life.createWorkload(workload);
  const claim = await life.claim("bob", workload, true);
  await life.run(claim.status?.instanceId, "echo kept > /data/file");
  await edit(life, workload, structuredClone(spec));
  await life.release(claim);
  const before = await archiveOf(life, claim);
  assert.ok(before);
  const refused = await life.createClaim("bob", workload, true);
  const failed = await life.untilClaim(refused, "to end", (status) =>
    ["Active", "Error"].includes(status?.phase ?? ""),
  );
  assert.equal([failed.status?.phase, failed.status?.reason], ["Error", "RestoreFailed"]);
  assert.match(failed.status?.message ?? "", /holds files of \/data, .*add it to spec\.filesystem\.overlayDirs/);
  await life.release(refused);
  const without = await life.claim("bob", workload, false);
  assert.equal(await archiveOf(life, claim), before);
  await edit(life, workload, { filesystem: { overlayDirs: ["/data", "/other"] } });
  if (what === "keeps none any more") {
    await life.release(without);
    const next = await life.claim("bob", workload, true);
    assert.is(await life.kept(next), "kept\n");
  }
}

async function losePod({ life }: LifeContext): Promise<void> {
  const workload = "lost";
  await life.createWorkload(workload);
  await life.keep("carol", workload, "saved");
  const claim = await life.claim("carol", workload, true);
  const { instanceId = "" } = claim.status ?? {};
  await life.run(instanceId, "echo unsaved > /data/file");
  await life.client.delete(pods, { namespace: NAMESPACE, name: instanceId }, { gracePeriodSeconds: 0 });
  const active = await life.untilClaim(
    claim,
    "to have another pod",
    (status) => status?.phase === "Active" && status.instanceId !== instanceId,
  );
  assert.is(active.status?.source, "cold+data");
  assert.is(await life.kept(active), "saved\n");
}

const changes: [string, Partial<WorkloadSpec>][] = [
  [
    "keeps other directories and has another image",
    { image: { ref: HELLO_IMAGE }, filesystem: { overlayDirs: ["/other"] } },
  ],
  ["keeps none any more", { filesystem: { overlayDirs: [] } }],
];

testAtOnce(test, [
  ["tenants of one workload never see each other's files", keepTenantsApart],
  ["a program that ends again and again: its files are saved while it runs", saveWhileItLoops],
  ["a workload that is deleted while a claim lives: the release saves the files, and they come back", deleteWorkload],
  ...changes.map(
    ([what, spec]) =>
      [
        `a workload that ${what}: the release saves what the pod was made with, a resume says what to do`,
        (context: LifeContext) => changeWorkload(context, what, spec),
      ] as const,
  ),
  [
    "a pod that is deleted without grace under an Active claim: another comes with the last archive, and an Event says so",
    losePod,
  ],
  ...[...idleCases, ...preSaveCases, ...unchangedCases, ...launcherCases, ...checkpointCases],
]);

test("destroy: a claim that was used again after it was marked is saved when it is released", saveWhatWasUsedAgain);
for (const [name, run] of launcherTests) test(name, run);
test("the operator that follows the one that restored saves all", saveAllAfterRestart);

test.run();
