// What a session keeps of a pod that is lost, in real containers.
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { archiveDigits } from "../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import { StoreError } from "../../../crds/snapshots/snapshot-store.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import type { Case } from "../../at-once.ts";
import { areOfOneMoment, countingProgram } from "../../counted-files.ts";
import type { LifeContext } from "./life-suite.ts";
import { idleProgram, type Lifecycle, NAMESPACE } from "./lifecycle.ts";

const LIMIT_MS = 480_000;
const FILES = 100;
export const WITH_CHECKPOINTS: NonNullable<WorkloadSpec["filesystem"]> = {
  overlayDirs: ["/data"],
  checkpointSeconds: 30,
};

/** With such files it writes nothing. It rests in between, since other tests run beside it. */
const COUNTS = `[ ! -e /data/file-0 ] || exec sleep 36000
${countingProgram({ files: FILES, folder: "/data", rest: "usleep 5000" })}`;

export async function prepareCheckpoints(life: Lifecycle): Promise<void> {
  const entrypoint = { cmd: "/bin/busybox", args: ["sh", "-c", COUNTS] };
  await Promise.all([
    life.createWorkload("counts", { entrypoint, filesystem: WITH_CHECKPOINTS }),
    life.createWorkload("writes", { entrypoint: idleProgram(), filesystem: WITH_CHECKPOINTS }),
  ]);
}

async function versionsOf({ store }: Lifecycle, { spec }: Claim) {
  const { tenantId, workloadRef } = spec;
  const call = { signal: AbortSignal.timeout(LIMIT_MS), timeoutMs: LIMIT_MS };
  return await store.look({ tenantId, workloadRef }, call);
}

async function checkpointOf(life: Lifecycle, claim: Claim): Promise<SnapshotMetadata | undefined> {
  return (await versionsOf(life, claim)).versions.find(({ kind }) => kind === "checkpoint");
}

/** Waits for a checkpoint of the claim's session, or for another than the one before. */
export async function untilCheckpoint(
  life: Lifecycle,
  claim: Claim,
  before?: SnapshotMetadata,
): Promise<SnapshotMetadata> {
  let found: SnapshotMetadata | undefined;
  let status: Claim["status"];
  let problem = "";
  const isThere = async () => {
    try {
      found = await checkpointOf(life, claim);
    } catch (error) {
      // The first claim may be Active before the helper pod has an address.
      if (!(error instanceof StoreError && error.isTransient)) throw error;
      problem = error.message;
    }
    status = (await life.find(claim))?.status;
    return found !== undefined && found.sha256 !== before?.sha256;
  };
  const explain = () => `${JSON.stringify(status)} ${problem}`;
  await waitUntil(isThere, { what: `a checkpoint of ${claim.spec.tenantId}`, limitMs: LIMIT_MS, explain });
  return found as SnapshotMetadata;
}

/** Deletes the claim's pod as a node does that is gone, and waits for the next one. */
export async function losePod(life: Lifecycle, claim: Claim): Promise<Claim> {
  const { instanceId = "" } = claim.status ?? {};
  await life.client.delete(pods, { namespace: NAMESPACE, name: instanceId }, { gracePeriodSeconds: 0 });
  return await life.untilClaim(
    claim,
    "to have another pod",
    (status) => status?.phase === "Active" && status.instanceId !== instanceId,
  );
}

async function goOn({ life }: LifeContext): Promise<void> {
  const claim = await life.claim("counter", "counts", false);
  const first = await untilCheckpoint(life, claim);
  // The next one has only what has changed.
  const second = await untilCheckpoint(life, claim, first);
  assert.is(
    await life.run(claim.status?.instanceId, "$b cat /proc/[0-9]*/status | $b grep -c '^State:.T' || :"),
    "0\n",
  );
  const next = await losePod(life, claim);
  const { source, resumedFrom, restoredFrom, message = "" } = next.status ?? {};
  assert.is(source, "cold+data");
  assert.is(resumedFrom, undefined, "the session began without files");
  assert.ok(
    restoredFrom !== undefined && restoredFrom !== first.sha256,
    `${restoredFrom} is not the newest checkpoint`,
  );
  assert.match(message, /^the session lost its pod and goes on with its files of \S+, which are \d+ s old: /);
  const read = `cd /data; for i in $($b seq 0 ${FILES - 1}); do echo "$($b cat file-$i)"; done`;
  const numbers = (await life.run(next.status?.instanceId, read)).split("\n").slice(0, FILES).map(Number);
  assert.ok(numbers.length === FILES && areOfOneMoment(numbers), `they are not of one moment: ${numbers.join(" ")}`);
  assert.ok(Date.parse(second.createdAt) > Date.parse(first.createdAt));
  await life.release(next);
  const { newest, versions } = await versionsOf(life, claim);
  assert.equal([newest?.kind, versions], [undefined, []], "the release replaces the checkpoint");
}

async function keepVersion({ life }: LifeContext): Promise<void> {
  const claim = await life.claim("ends", "writes", true);
  await life.run(claim.status?.instanceId, "echo kept > /data/file");
  const { sha256 } = await untilCheckpoint(life, claim);
  const ref = { namespace: NAMESPACE, name: claim.status?.instanceId ?? "" };
  await Promise.all([life.client.delete(pods, ref, { gracePeriodSeconds: 0 }), life.deleteClaim(claim)]);
  await life.untilGone(claim);
  const { newest, versions } = await versionsOf(life, claim);
  const left = newest ?? versions[0];
  assert.is(left?.sha256, sha256);
  const { metadata, spec } = claim;
  const again = await life.client.create(claims, {
    metadata: { name: metadata.name, namespace: NAMESPACE, labels: metadata.labels ?? {} },
    spec: { ...spec, resumeVersion: archiveDigits(sha256) },
  });
  const active = await life.untilClaim(again, "to be Active", (status) => status?.phase === "Active");
  const { resumedFrom, restoredFrom } = active.status ?? {};
  assert.equal([resumedFrom, restoredFrom], [sha256, undefined], "the checkpoint is of another session");
  assert.is(await life.kept(active), "kept\n");
}

async function giveUp({ life }: LifeContext): Promise<void> {
  await life.keep("gives-up", "writes", "released");
  const claim = await life.claim("gives-up", "writes", true);
  await life.run(claim.status?.instanceId, "echo unwanted > /data/file");
  await untilCheckpoint(life, claim);
  const annotations = { [annotation.discard]: "true" };
  const ref = { namespace: NAMESPACE, name: claim.metadata.name };
  await life.client.patch(claims, ref, { type: "merge", body: { metadata: { annotations } } });
  await life.release(claim);
  const isGone = async () => (await checkpointOf(life, claim)) === undefined;
  await waitUntil(isGone, { what: "the checkpoint to be deleted", limitMs: LIMIT_MS });
  assert.is(await life.kept(await life.claim("gives-up", "writes", true)), "released\n");
}

/** By kubectl's annotation; docs/how-to/versions-of-files.md does it by REST. */
async function onRequest({ life }: LifeContext): Promise<void> {
  const claim = await life.claim("by-hand", "writes", false);
  const write = (pod: string | undefined, text: string) => life.run(pod, `echo ${text} > /data/file`);
  await write(claim.status?.instanceId, "step-1");
  const annotations = { [annotation.checkpoint]: "step-1" };
  const ref = { namespace: NAMESPACE, name: claim.metadata.name };
  await life.client.patch(claims, ref, { type: "merge", body: { metadata: { annotations } } });
  const answered = await life.untilClaim(claim, "to have an answer", (status) => status?.checkpoint !== undefined);
  const { request, sha256 = "", message } = answered.status?.checkpoint ?? {};
  assert.equal([request, message], ["step-1", undefined]);
  const isNamed = ({ sha256: of, names }: SnapshotMetadata) => of === sha256 && names?.join() === "step-1";
  assert.ok((await versionsOf(life, claim)).versions.some(isNamed));
  const next = await losePod(life, claim);
  assert.is(next.status?.restoredFrom, sha256, "it is the newest checkpoint of the session");
  assert.is(await life.kept(next), "step-1\n");
  await write(next.status?.instanceId, "step-2");
  await life.release(next);
  const { newest, versions } = await versionsOf(life, claim);
  assert.equal([newest?.names, versions.length, versions.every(isNamed)], [undefined, 1, true]);
  const { metadata, spec } = claim;
  const again = await life.client.create(claims, {
    metadata: { name: metadata.name, namespace: NAMESPACE, labels: metadata.labels ?? {} },
    spec: { ...spec, resumeVersion: archiveDigits(sha256) },
  });
  const active = await life.untilClaim(again, "to be Active", (status) => status?.phase === "Active");
  assert.is(await life.kept(active), "step-1\n");
}

/** Each takes about a minute: a checkpoint comes after half its interval at the earliest. */
export const checkpointCases: readonly Case<LifeContext>[] = [
  ["a session whose pod is lost goes on with its last checkpoint, whose files are of one moment", goOn],
  ["a session that ends with its pod lost leaves its checkpoint as a version", keepVersion],
  ["a checkpoint on request stays under its name, and is what the session goes on with", onRequest],
  ["files that are given up leave no checkpoint", giveUp],
];
