// @limit 900
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { HELLO_IMAGE } from "../../../scripts/cluster/images/local-images.ts";
import { archiveOf } from "./faults.ts";
import { type LifeContext, lifeSuite, testAtOnce } from "./life-suite.ts";
import { type Lifecycle, NAMESPACE } from "./lifecycle.ts";

const test = lifeSuite("files when a workload changes or a pod is lost", { name: "changes" });

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
  await life.release(next);
}

async function changeWorkload({ life }: LifeContext, what: string, spec: Partial<WorkloadSpec>): Promise<void> {
  const workload = `edited-${what.length}`;
  await life.createWorkload(workload);
  const claim = await life.claim("bob", workload, true);
  await life.run(claim.status?.instanceId, "echo kept > /data/file");
  await edit(life, workload, structuredClone(spec));
  await life.release(claim);
  const before = archiveOf(life, claim);
  assert.ok(before);
  const refused = await life.createClaim("bob", workload, true);
  const failed = await life.untilClaim(refused, "to end", (status) =>
    ["Active", "Error"].includes(status?.phase ?? ""),
  );
  assert.equal([failed.status?.phase, failed.status?.reason], ["Error", "RestoreFailed"]);
  assert.match(failed.status?.message ?? "", /holds files of \/data, .*add it to spec\.filesystem\.overlayDirs/);
  await life.release(refused);
  const without = await life.claim("bob", workload, false);
  assert.equal(archiveOf(life, claim), before);
  await edit(life, workload, { filesystem: { overlayDirs: ["/data", "/other"] } });
  if (what === "keeps none any more") {
    await life.release(without);
    const next = await life.claim("bob", workload, true);
    assert.is(await life.kept(next), "kept\n");
    await life.release(next);
  } else await life.release(without);
}

async function losePod({ life, faults }: LifeContext, how: "deleted" | "evicted"): Promise<void> {
  const workload = `lost-${how}`;
  await life.createWorkload(workload);
  await life.keep("carol", workload, "saved");
  const claim = await life.claim("carol", workload, true);
  const { instanceId = "" } = claim.status ?? {};
  await life.run(instanceId, "echo unsaved > /data/file");
  const path = `/api/v1/namespaces/${NAMESPACE}/pods/${instanceId}`;
  if (how === "deleted") await life.client.delete(pods, { namespace: NAMESPACE, name: instanceId });
  else {
    const metadata = { name: instanceId, namespace: NAMESPACE };
    const body = JSON.stringify({ apiVersion: "policy/v1", kind: "Eviction", metadata });
    await life.client.request({ method: "POST", path: `${path}/eviction`, body });
  }
  const active = await life.untilClaim(
    claim,
    "to have another pod",
    (status) => status?.phase === "Active" && status.instanceId !== instanceId,
  );
  await faults.untilEvent(claim, "PodLost");
  assert.is(active.status?.source, "cold+data");
  assert.is(await life.kept(active), "saved\n");
  await life.release(active);
}

const changes: [string, Partial<WorkloadSpec>][] = [
  [
    "keeps other directories and has another image",
    { image: { ref: HELLO_IMAGE }, filesystem: { overlayDirs: ["/other"] } },
  ],
  ["keeps none any more", { filesystem: { overlayDirs: [] } }],
];

testAtOnce(test, [
  ["a workload that is deleted while a claim lives: the release saves the files, and they come back", deleteWorkload],
  ...changes.map(
    ([what, spec]) =>
      [
        `a workload that ${what}: the release saves what the pod was made with, a resume says what to do`,
        (context: LifeContext) => changeWorkload(context, what, spec),
      ] as const,
  ),
  ...(["deleted", "evicted"] as const).map(
    (how) =>
      [
        `a pod that is ${how} under an Active claim: another comes with the last archive, and an Event says so`,
        (context: LifeContext) => losePod(context, how),
      ] as const,
  ),
]);

test.run();
