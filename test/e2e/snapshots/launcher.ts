// What the launcher promises of the end of a program, in real containers.
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { events, pods } from "../../../crds/client/built-in-resources.ts";
import { label } from "../../../crds/labels.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import type { Case } from "../../at-once.ts";
import type { LifeContext } from "./life-suite.ts";
import { type Lifecycle, NAMESPACE } from "./lifecycle.ts";

/** How many sessions a node holds that is drained. */
const SESSIONS = 20;
/** For so long each drained pod waits for its files to be saved. A busy machine saves those of all in less. */
const DRAINED_GRACE_SECONDS = 900;

/** Counts in memory, and writes the count to its file when it is told to end. */
const FLUSHES = "n=0; trap 'echo $n > /data/count; exit 0' TERM; while :; do n=$((n + 1)); sleep 0.05; done";

function running(script: string, more: Partial<WorkloadSpec["entrypoint"]> = {}): Partial<WorkloadSpec> {
  return {
    entrypoint: { cmd: "/bin/busybox", args: ["sh", "-c", script], ...more },
    resources: { vcpus: 1, memoryMb: 64, diskGb: 1 },
  };
}

export async function prepareLauncher(life: Lifecycle): Promise<void> {
  await life.createWorkload("flushes", running(FLUSHES));
  await life.createWorkload("drained", {
    ...running(FLUSHES),
    filesystem: { overlayDirs: ["/data"], checkpointSeconds: 0, saveGraceSeconds: DRAINED_GRACE_SECONDS },
  });
  await life.createWorkload(
    "ignores",
    running("trap '' TERM; echo yes > /data/ready; while :; do sleep 0.1; done", { stopGraceSeconds: 1 }),
  );
  await life.createWorkload("keeps-on", {
    ...running("trap 'echo end > /data/end; exit 0' TERM; while :; do sleep 0.1; done"),
    filesystem: { overlayDirs: ["/data"], saveWhileRunning: true },
  });
}

async function flushBeforeSave({ life }: LifeContext): Promise<void> {
  const claim = await life.claim("flush", "flushes", true);
  assert.is(await life.run(claim.status?.instanceId, "$b ls /data"), "", "it is in no file");
  await life.release(claim);
  const next = await life.claim("flush", "flushes", true);
  assert.match(await life.run(next.status?.instanceId, "$b cat /data/count"), /^[1-9]\d*\n$/);
}

async function killAfterGrace({ life }: LifeContext): Promise<void> {
  const claim = await life.claim("ignore", "ignores", true);
  await life.run(claim.status?.instanceId, "until [ -s /data/ready ]; do $b sleep 0.1; done; echo kept > /data/file");
  await life.release(claim);
  assert.is(await life.kept(await life.claim("ignore", "ignores", true)), "kept\n");
}

async function saveWhileRunning({ life }: LifeContext): Promise<void> {
  const claim = await life.claim("runs-on", "keeps-on", true);
  await life.run(claim.status?.instanceId, "echo kept > /data/file");
  await life.release(claim);
  const next = await life.claim("runs-on", "keeps-on", true);
  assert.is(await life.run(next.status?.instanceId, "$b ls /data"), "file\n");
}

/** Each is ended with the pod's own grace period, or the one that is given. */
const ends: Readonly<Record<string, (life: Lifecycle, name: string) => Promise<unknown>>> = {
  deleted: (life, name) => life.client.delete(pods, { namespace: NAMESPACE, name }),
  evicted: (life, name) =>
    life.client.request({
      method: "POST",
      path: `/api/v1/namespaces/${NAMESPACE}/pods/${name}/eviction`,
      body: JSON.stringify({ apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: NAMESPACE } }),
    }),
};

async function move({ life }: LifeContext, how: string): Promise<void> {
  const claim = await life.claim(`moved-${how}`, "flushes", false);
  const { instanceId = "" } = claim.status ?? {};
  await life.run(instanceId, "echo unsaved > /data/file");
  await ends[how]?.(life, instanceId);
  const active = await untilMoved(life, claim);
  assert.is(active.status?.source, "cold+data");
  assert.is(await life.kept(active), "unsaved\n");
  assert.match(await life.run(active.status?.instanceId, "$b cat /data/count"), /^[1-9]\d*\n$/, "the program flushed");
}

async function moveWithAnotherOperator({ life }: LifeContext): Promise<void> {
  const claim = await life.claim("moved-crash", "flushes", false);
  const { instanceId = "" } = claim.status ?? {};
  await life.run(instanceId, "echo unsaved > /data/file");
  await ends.deleted?.(life, instanceId);
  await life.untilClaim(claim, "to move", (status) => status?.reason === "Moving" || status?.instanceId !== instanceId);
  await life.killOperator();
  await life.startOperator();
  const active = await untilMoved(life, claim);
  assert.is(await life.kept(active), "unsaved\n");
}

/** A node with sessions in use is emptied by the one command that everybody knows, and nothing is lost. */
async function drain({ life }: LifeContext): Promise<void> {
  const names = Array.from({ length: SESSIONS }, (_, index) => `drained-${index}`);
  const held = await Promise.all(names.map((name) => life.claim(name, "drained", false)));
  await Promise.all(
    held.map(({ spec, status }) =>
      life.run(status?.instanceId, `$b head -c 300000 /dev/urandom > /data/bytes; echo ${spec.tenantId} > /data/file`),
    ),
  );
  const digest = ({ status }: Claim) => life.run(status?.instanceId, "$b sha256sum /data/bytes /data/file");
  const before = await Promise.all(held.map(digest));
  const { items } = await life.client.list(pods, { namespace: NAMESPACE });
  const node = items.find(({ metadata }) => metadata.name === held[0]?.status?.instanceId)?.spec.nodeName ?? "";
  const kubectl = (...words: string[]) =>
    runCommand(life.cluster.kubectlPath, ["--kubeconfig", life.cluster.kubeconfigPath, ...words], {
      limitMs: DRAINED_GRACE_SECONDS * 1000,
    });
  // The helper, which holds the volume, stays where the archives go.
  const selector = `${label.workload}=drained`;
  try {
    await kubectl("drain", node, "--delete-emptydir-data", "--force", `--pod-selector=${selector}`);
  } finally {
    await kubectl("uncordon", node);
  }
  const moved = await Promise.all(held.map((claim) => untilMoved(life, claim)));
  const withoutFiles = moved.filter(({ status }) => status?.source !== "cold+data");
  assert.equal(
    withoutFiles.map(({ metadata, status }) => [metadata.name, status?.source]),
    [],
    await lossesOf(life),
  );
  assert.equal(await Promise.all(moved.map(digest)), before);
}

/** What the Events say of sessions that went on without their files. */
async function lossesOf({ client }: Lifecycle): Promise<string> {
  const { items } = await client.list(events, { namespace: NAMESPACE, fieldSelector: "type=Warning" });
  return items.map(({ reason, message }) => `${reason}: ${message}`).join("\n");
}

function untilMoved(life: Lifecycle, claim: Claim): Promise<Claim> {
  const { instanceId } = claim.status ?? {};
  return life.untilClaim(
    claim,
    "to have another pod",
    (status) => status?.phase === "Active" && status.instanceId !== instanceId,
  );
}

export const launcherCases: readonly Case<LifeContext>[] = [
  ["a release stops the program first, and saves what it writes then", flushBeforeSave],
  ["a release kills a program that ignores SIGTERM, and saves its files", killAfterGrace],
  ["with saveWhileRunning the program is not stopped before its files are saved", saveWhileRunning],
  ...Object.keys(ends).map(
    (how) =>
      [
        `a pod that is ${how} under an Active claim is saved first, and another one goes on with all of it`,
        (context: LifeContext) => move(context, how),
      ] as const,
  ),
];

export const launcherTests: readonly Case<LifeContext>[] = [
  ["another operator ends the move of a session that the first one began", moveWithAnotherOperator],
  [`kubectl drain of a node with ${SESSIONS} sessions loses nothing`, drain],
];
