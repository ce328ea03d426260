import type { Claim } from "../../crds/claim.ts";
import { inputProblems } from "../../crds/claims/claim-inputs.ts";
import { labelProblems, podLabelsOf } from "../../crds/claims/claim-labels.ts";
import { isAlreadyExists } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { takesClaimInputs, withDefaults } from "../../crds/defaults.ts";
import { workloads } from "../../crds/kinds.ts";
import { annotation, label } from "../../crds/labels.ts";
import { instanceName, nameSuffix } from "../../crds/names.ts";
import { scalingOf } from "../../crds/pool.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import type { Workload } from "../../crds/workload.ts";
import { isOfUnknownHistory } from "../history.ts";
import { bindingOf, currentRevision, isBoundTo } from "../pod/pod-identity.ts";
import { type PodRefusal, podRefusal } from "../pod/pod-refusal.ts";
import { podState } from "../pod/pod-state.ts";
import { renderPod, templateHash } from "../pod/render-pod.ts";
import { nearestFirst } from "../pod/zones.ts";
import { WAITING_FOR_ROOM } from "../room/context.ts";
import { findNotice, noteCheckpoint } from "./archive-notice.ts";
import type { ClaimContext } from "./context.ts";
import { findArchive } from "./find-archive.ts";
import type { ClaimErrorReason, Outcome } from "./outcome.ts";
import { type GivenFiles, givenAnnotations, givenFiles } from "./session.ts";
import { activate, createReadAhead, tooEarly } from "./start-program.ts";
import { takeWarmPod } from "./take-warm-pod.ts";
import { takeRoom } from "./tenant-room.ts";
import { askedFor, waitForRoom } from "./wait-for-room.ts";

/** Gives a claim without a pod a warm one, or else a cold one, once its workload is Ready. */
export async function startPod(claim: Claim, context: ClaimContext): Promise<Outcome> {
  // Servers before 1.25 do not check their keys.
  const [problem] = labelProblems(claim.spec.labels ?? {}, "spec.labels");
  if (problem !== undefined) return { next: "fail", reason: "InvalidLabels", message: problem };
  const [wrong] = claim.spec.inputs === undefined ? [] : inputProblems(claim.spec.inputs, "spec.inputs");
  if (wrong !== undefined) return { next: "fail", reason: "InvalidInputs", message: wrong };
  const workload = await findWorkload(claim, context);
  if (workload === undefined) {
    const { workloadRef } = claim.spec;
    const message = `workload "${workloadRef}" does not exist in namespace "${context.config.namespace}", the only one that is served here: create it there, the claim then starts`;
    return { next: "fail", reason: "WorkloadNotFound", message };
  }
  const { metadata, status } = workload;
  if (metadata.deletionTimestamp !== undefined) {
    const message = `workload "${metadata.name}" is being deleted: claim another, or create it again when it is gone`;
    return { next: "fail", reason: "WorkloadTerminating", message };
  }
  // A status of an older spec does not count. The workload's next event starts the next run.
  if (status === undefined || status.observedGeneration !== metadata.generation)
    return awaitWorkload(claim, `workload "${metadata.name}" has not been checked yet`);
  if (status.phase === "Error") {
    const message = `workload "${metadata.name}" is not ready (${status.reason}): ${status.message}`;
    return { next: "fail", reason: "WorkloadNotReady", message };
  }
  const because = status.message === undefined ? "" : `: ${status.message}`;
  // Without a template, the pods cannot be rendered, and the workload's status is about to say why.
  if (status.phase !== "Ready" || templateHash(workload, context.config) === undefined)
    return awaitWorkload(claim, `workload "${metadata.name}" is not ready yet (${status.phase})${because}`);
  if (claim.spec.inputs !== undefined && !takesClaimInputs(workload.spec)) return tooEarly(claim);
  const noRoom = takeRoom(claim, workload, context);
  if (noRoom !== undefined) return noRoom;
  const { overlayDirs } = withDefaults(workload.spec).filesystem;
  const answer = await findArchive(claim, overlayDirs, context);
  if (!answer.known) return answer.result;
  const { archive } = answer;
  const given = givenFiles(claim, archive);
  if (archive !== undefined && given.restoredFrom !== undefined) noteCheckpoint(claim, archive, context);
  findNotice(claim, overlayDirs, context);
  const source = archive === undefined ? "pool" : "pool+data";
  const readAhead = createReadAhead(claim, context);
  const binding = { source, given, revision: currentRevision(claim), readAhead } as const;
  const warm = await takeWarmPod({ claim, workload, ...binding }, context);
  if (warm === undefined) {
    const promise = promiseWarmingPod(claim, workload, context);
    if (promise !== undefined) return { requeueAfterMs: promise.leftMs };
  } else context.timelines.mark(claim, "Bound");
  // One that waits for room was counted when it began.
  const { uid = "" } = claim.metadata;
  if (!context.roomQueue.has(uid)) noteHit({ claim, isHit: warm !== undefined }, context);
  if (warm !== undefined) context.roomQueue.leave(uid);
  if (warm === undefined) return createPod({ claim, workload, archive, given }, context);
  // The event of the binding starts the next run, which restores the files.
  return archive === undefined ? activate(claim, { pod: warm, readAhead }, context) : undefined;
}

function promiseWarmingPod(claim: Claim, workload: Workload, context: ClaimContext) {
  const { informers, config, editedPods, historySince, poolFailures, promisedPods } = context;
  const template = templateHash(workload, config);
  let isFirst = false;
  const promise = promisedPods.promise(claim.metadata.uid ?? "", function* () {
    isFirst = true;
    for (const { metadata } of informers.pools.store.by("workload", workload.metadata.name)) {
      if (poolFailures.isDegraded(metadata.name)) continue;
      const warming = informers.pods.store.by("pool", `${metadata.name}/warming/${template}`);
      for (const pod of nearestFirst(warming, claim.spec.zone, context)) {
        const isDoubtful = editedPods.has(pod.metadata.uid ?? "") || isOfUnknownHistory(pod, historySince);
        if (!isDoubtful && podState(pod).state !== "unschedulable") yield pod;
      }
    }
  });
  // It will have a warm pod, but had to wait for it.
  if (promise !== undefined && isFirst) noteMiss(claim, context);
  return promise;
}

function awaitWorkload({ metadata }: Claim, message: string): Outcome {
  return { next: "wait", reason: "WorkloadNotReady", message, since: Date.parse(metadata.creationTimestamp ?? "") };
}

/** Counts the claims that found a warm pod and those that did not, and warns on a pool that had none. */
function noteHit({ claim, isHit }: { claim: Claim; isHit: boolean }, context: ClaimContext): void {
  const sources = context.informers.pools.store.by("workload", claim.spec.workloadRef);
  if (sources.size > 0) context.metrics.poolClaims.inc({ result: isHit ? "hit" : "miss" });
  if (isHit) return;
  noteMiss(claim, context);
  for (const pool of sources) {
    const help =
      scalingOf(pool) === undefined
        ? "a larger spec.size or spec.maxFillConcurrency would help"
        : "the pool grows up to spec.maxSize; a larger spec.minSize or spec.maxFillConcurrency would help";
    const message = `a claim found no warm pod and starts a cold one: ${help}`;
    context.poolEvents.warn(pool, { reason: "PoolEmpty", message });
  }
}

/** Lets the pools of the claim's workload grow. */
function noteMiss({ spec }: Claim, { informers, metrics, poolSizes }: ClaimContext): void {
  const pools = [...informers.pools.store.by("workload", spec.workloadRef)];
  const scaling = pools.filter((pool) => scalingOf(pool) !== undefined);
  if (scaling.length > 0) poolSizes.arrivals.missed(spec.workloadRef);
  for (const { metadata } of pools) metrics.poolMisses.inc({ pool: metadata.name });
  for (const { metadata } of scaling) poolSizes.changed(metadata.name);
}

/**
 * The workload from the cache if that is new enough, else from the API server. The cache may not show yet a workload
 * that was created just before the claim, or recreated after a deletion. A claim is often tried again after a change of
 * its workload, which the cache may also not show yet. A claim made through the REST API carries the uid and generation
 * of its workload at the time of the call: the cache is new enough if it has these. A claim without them needs a read.
 */
async function findWorkload(claim: Claim, { cluster, config, informers }: ClaimContext): Promise<Workload | undefined> {
  const name = claim.spec.workloadRef;
  const known = informers.workloads.store.get({ namespace: config.namespace, name });
  const isGoing = known?.metadata.deletionTimestamp !== undefined;
  const { [annotation.attempt]: attempt, [annotation.workloadSeen]: seen } = claim.metadata.annotations ?? {};
  if (known !== undefined && !isGoing && attempt === undefined && isAsNewAs(known, seen)) return known;
  return await cluster(workloads).named(name).find({ refresh: true });
}

/** @param seen the claim's annotation */
function isAsNewAs({ metadata }: Workload, seen: string | undefined): boolean {
  const [uid, generation] = seen?.split("/") ?? [];
  return uid !== undefined && uid === metadata.uid && (metadata.generation ?? 0) >= Number(generation);
}

async function createPod(
  {
    claim,
    workload,
    archive,
    given,
  }: {
    claim: Claim;
    workload: Workload;
    archive: SnapshotMetadata | undefined;
    given: GivenFiles;
  },
  context: ClaimContext,
): Promise<Outcome> {
  const { cluster, config, roomQueue } = context;
  const { tenantId, workloadRef } = claim.spec;
  const uid = claim.metadata.uid ?? "";
  const revision = currentRevision(claim);
  // The name is derived from the claim and its revision: a retry, by this process or its successor, cannot create a
  // second pod.
  const name = instanceName({ tenantId, workload: workloadRef, suffix: nameSuffix(uid, revision) });
  const pod = renderPod(
    workload,
    {
      name,
      labels: {
        ...podLabelsOf(claim.spec),
        [label.tenant]: tenantId,
        [label.binding]: bindingOf(claim, revision),
      },
      annotations: {
        [annotation.claimUid]: uid,
        [annotation.claim]: claim.metadata.name,
        [annotation.incarnation]: String(revision),
        [annotation.source]: archive === undefined ? "cold" : "cold+data",
        ...givenAnnotations(given),
        [annotation.claimedAt]: new Date().toISOString(),
      },
    },
    config,
    { restoreAs: archive, placement: { zone: claim.spec.zone } },
  );
  const asked = askedFor(claim, pod, context);
  // A new leader has not asked the others yet.
  const said = context.informers.claims.store.by("inRoomQueue", "").size;
  const isAlone = said === (claim.status?.reason === WAITING_FOR_ROOM ? 1 : 0);
  const turn = config.queueTimeoutMs === 0 ? "now" : roomQueue.ask(claim, { ...asked, isAlone });
  if (turn !== "now") return waitForRoom(turn, context);
  try {
    const created = await cluster(pods).create(pod);
    roomQueue.leave(uid);
    context.timelines.mark(claim, "Bound");
    context.ownPods.add(created.metadata.uid ?? "");
    return undefined;
  } catch (error) {
    if (isAlreadyExists(error)) return adoptPod(claim, name, context);
    const refusal = podRefusal(error);
    if (refusal === undefined) throw error;
    const { fullQuota: full } = refusal;
    if (full !== undefined) return waitForRoom(roomQueue.refused(claim, { ...asked, full }), context);
    return { next: "fail", ...failureOf(refusal) };
  }
}

/** The name is taken: by this claim's own pod, which the cache does not show yet, or by a pod that is being deleted. */
async function adoptPod(claim: Claim, name: string, context: ClaimContext): Promise<Outcome> {
  const taken = await context.cluster(pods).named(name).find({ refresh: true });
  if (taken === undefined) return { requeueAfterMs: 100 };
  if (isBoundTo(taken, claim) && taken.metadata.deletionTimestamp === undefined) return undefined;
  return { next: "replace", why: { reason: "PodLost", message: `pod "${name}" is being deleted` } };
}

/** Why the claim fails after the API server refused its pod. */
function failureOf({ reason, message }: PodRefusal): { reason: ClaimErrorReason; message: string } {
  return reason === "QuotaExceeded"
    ? {
        reason,
        message: `the namespace's limits do not allow the instance at all: lower the workload's spec.resources or raise the limits, then claim again (${message})`,
      }
    : { reason: "WorkloadNotReady", message: `the cluster refuses the workload's pod: ${message}` };
}
