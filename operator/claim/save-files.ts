import type { Claim, ClaimStatus } from "../../crds/claim.ts";
import { isDestroyed, isShown } from "../../crds/claims/claim-pod.ts";
import { systemClock } from "../../crds/client/clock.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import type { Condition } from "../../crds/schema/condition.ts";
import { archiveDigits } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { withTimeLimit } from "../../crds/waits.ts";
import { isHeldByLauncher } from "../launcher/launch-command.ts";
import { podState } from "../pod/pod-state.ts";
import type { ReconcileResult } from "../queue.ts";
import { TOOLS_BUSYBOX } from "../snapshots/pods/pod-tools.ts";
import type { SavedSnapshot } from "../snapshots/save-pod.ts";
import { isCurrent, readClaimPod } from "./claim-pods.ts";
import { type ClaimStatusPatch, FILES_SAVED, otherConditions, patchClaimStatus } from "./claim-status.ts";
import type { ClaimContext } from "./context.ts";
import { lostFiles } from "./lost-files.ts";
import { isDiscardedForExpiry } from "./release-when-expired.ts";
import { isDiscardedForIdleness } from "./release-when-idle.ts";
import { forgetSave, runSave } from "./run-save.ts";
import { sessionOf } from "./session.ts";

const LOOK_LIMIT_MS = 20_000;
const LATE_RETRY_MS = 3_600_000;
const MOST_SHOWN = 8192;

/** What a claim's status says about the files of its release. */
export type FilesStatus = Pick<ClaimStatus, "files" | "snapshot">;

/** The pod that a release has to save before it deletes the pods, or what became of the files if there is none. */
export interface FilesToSave {
  readonly pod?: Pod;
  readonly told?: FilesStatus;
  /** The pod is being asked whether it has the files: delete no pod before it answers. */
  readonly asking?: { readonly result: ReconcileResult };
}

/**
 * The pod whose files a release has to save: only the pod that the tenant was given. The files in any other pod are not
 * the tenant's, or not complete.
 */
export async function filesToSave(claim: Claim, pods: readonly Pod[], context: ClaimContext): Promise<FilesToSave> {
  const { status, metadata } = claim;
  const pod = pods.find((candidate) => isShown(candidate, claim));
  if (pod?.metadata.annotations?.[annotation.overlayDirs] === undefined || status?.snapshot !== undefined) return {};
  const isGivenUp = metadata.annotations?.[annotation.discard] === "true" || isDiscardedForExpiry(claim);
  const isDiscarded = isGivenUp || (await isLeftIdle(claim, pod, context));
  if (isDiscarded) {
    forgetSave(pod.metadata.uid ?? "", context);
    if (pod.metadata.deletionTimestamp === undefined) {
      context.events.record({
        ...{ resource: claims, object: claim, type: "Normal", reason: "Discarded" },
        message: `the files in pod "${pod.metadata.name}" are given up: the archive of the last release stays as it is`,
      });
    }
    return { told: { files: "discarded" } };
  }
  if (pod.metadata.deletionTimestamp !== undefined && isDestroyed(claim)) return { told: { files: "discarded" } };
  const state = podState(pod);
  const isLost = state.state === "lost" && !isHeldByLauncher(pod);
  const answer = isLost ? undefined : lostFiles(claim, pod, context);
  if (answer?.isKnown === false) return { asking: answer };
  const lost = isLost ? state.message : answer?.value;
  if (lost === undefined) return { pod };
  if (status?.files === "notSaved") return { told: { files: status.files } };
  // A save that has begun may have all files already, or may still succeed.
  const save = context.saves.look(pod.metadata.uid ?? "");
  if (save?.state === "done" || save?.state === "running") return { pod };
  // A stale claim can make saved files look lost: read it again.
  if (!(await isCurrent(claim, context))) return {};
  return { told: await tellLost(claim, lost, context) };
}

/**
 * Finds out what became of the files of a lost pod. A save may have succeeded although this operator did not see it. So
 * it reads the newest archive, which names the pod that it was saved from.
 *
 * @param lost what happened to the pod
 */
export async function tellLost(claim: Claim, lost: string, context: ClaimContext): Promise<FilesStatus> {
  const { events, log } = context;
  let stays = "the archive of the last release stays as it is";
  try {
    const saved = await findSaved(claim, context);
    if (saved !== undefined) return { files: "saved", snapshot: snapshotOf(saved) };
    const checkpoint = await findCheckpoint(claim, context);
    if (checkpoint !== undefined) {
      const version = archiveDigits(checkpoint.sha256);
      stays += `. The session's files of ${checkpoint.createdAt} are kept as version ${version}: claim with resume {"version": "${version}"} to go on from them`;
    }
  } catch (error) {
    log.warn({ claim: claim.metadata.name, error }, "cannot find out whether the files of a lost pod were saved");
    stays = "as far as is known, since the newest archive could not be looked at";
  }
  events.record({
    ...{ resource: claims, object: claim, type: "Warning", reason: "NotSaved" },
    message: `${lost} before its files were saved: ${stays}`,
  });
  return { files: "notSaved" };
}

/** The newest archive, if it was saved from the pod that the claim's status names. */
export async function findSaved({ spec, status }: Claim, context: ClaimContext): Promise<SnapshotMetadata | undefined> {
  const { tenantId, workloadRef } = spec;
  const { overlayId, instanceUid } = status ?? {};
  const limit = { what: "the look at the newest archive", ms: LOOK_LIMIT_MS, clock: systemClock };
  const newest = await withTimeLimit(limit, (signal) => context.snapshots.find({ tenantId, workloadRef }, { signal }));
  return newest?.podUid !== undefined && [overlayId, instanceUid].includes(newest.podUid) ? newest : undefined;
}

/** The checkpoint of the claim's session. */
export async function findCheckpoint(claim: Claim, context: ClaimContext): Promise<SnapshotMetadata | undefined> {
  const { tenantId, workloadRef } = claim.spec;
  const limit = { what: "the look for a checkpoint", ms: LOOK_LIMIT_MS, clock: systemClock };
  return await withTimeLimit(limit, (signal) =>
    context.snapshots.findCheckpoint({ tenantId, workloadRef }, { session: sessionOf(claim), signal }),
  );
}

/**
 * Whether the pod has not been used since the claim was marked for idleness. Asks the API server, since the cache may
 * not show a late use yet.
 */
async function isLeftIdle(claim: Claim, pod: Pod, context: ClaimContext): Promise<boolean> {
  if (!isDiscardedForIdleness(claim, pod)) return false;
  if (pod.metadata.deletionTimestamp !== undefined) return true;
  const present = await readClaimPod(claim, context);
  return present === undefined || isDiscardedForIdleness(claim, present);
}

/**
 * Saves the files of a claim that is being released, in the background. Until they are saved, returns the result of the
 * reconcile.
 *
 * The previous archive stays until the new one is complete. If the save fails, the claim goes to `ReleaseFailed` and
 * keeps its pod, and the save is tried again until it succeeds or the files are discarded.
 */
export async function saveFiles(
  claim: Claim,
  pod: Pod,
  context: ClaimContext,
): Promise<{ saved: Claim } | { saved: undefined; result: ReconcileResult }> {
  const work = runSave(claim, pod, context);
  if (work.state === "running") return { saved: undefined, result: undefined };
  if (work.state === "done") {
    const { isUnchanged } = work.value;
    const conditions =
      claim.status?.conditions === undefined ? {} : { conditions: otherConditions(claim, FILES_SAVED) };
    const told: FilesStatus = { files: isUnchanged === true ? "unchanged" : "saved", snapshot: snapshotOf(work.value) };
    const status: ClaimStatusPatch = { phase: "Releasing", reason: null, message: null, ...told, ...conditions };
    const saved = await patchClaimStatus(claim, status, context);
    recordVersionKept(saved, work.value, context);
    return { saved };
  }
  const { error, retryInMs } = work;
  return { saved: undefined, result: await reportFailure({ claim, pod, error, retryInMs }, context) };
}

function snapshotOf({ sha256, sizeBytes, createdAt }: SnapshotMetadata): NonNullable<ClaimStatus["snapshot"]> {
  return { sha256, sizeBytes, createdAt };
}

/** Says that the archive before a save stays, of a session that was not given it. */
export function recordVersionKept(claim: Claim, { replaced }: SavedSnapshot, { events }: ClaimContext): void {
  if (replaced === undefined) return;
  const version = archiveDigits(replaced.sha256);
  const message = `the session was not given the archive of ${replaced.createdAt}, so that stays as version ${version}: claim with resume {"version": "${version}"} to go on from it`;
  events.record({ resource: claims, object: claim, type: "Normal", reason: "VersionKept", message });
}

/**
 * Writes to the claim what failed and what to do. The condition `FilesSaved` stores since when. After
 * `TENANCY_RELEASE_RETRY_LIMIT` a person has to act, and the save is tried again once an hour.
 */
async function reportFailure(
  { claim, pod, error, retryInMs }: { claim: Claim; pod: Pod; error: unknown; retryInMs: number },
  context: ClaimContext,
): Promise<ReconcileResult> {
  const { name, namespace = "" } = claim.metadata;
  const before = claim.status?.conditions?.find(({ type }) => type === FILES_SAVED);
  const since = before?.status === "False" ? before.lastTransitionTime : new Date(context.serverNow()).toISOString();
  const isOver = context.serverNow() - Date.parse(since) >= context.config.snapshots.retryLimitMs;
  const [reason, tries] = isOver
    ? [
        "RetryLimitExceeded",
        `since ${since}: a person has to act. The pod is kept and the save tried again once an hour`,
      ]
    : ["SaveFailed", "The pod is kept and the save tried again"];
  const look = `to look at its files: kubectl -n ${namespace} exec -it ${pod.metadata.name} -c ${WORKLOAD_CONTAINER} -- ${TOOLS_BUSYBOX} sh`;
  const giveUp = `to give them up: kubectl -n ${namespace} annotate tenancyclaim ${name} ${annotation.discard}=true`;
  // A command in a pod can say more than a status holds.
  const why = (error instanceof Error ? error.message : String(error)).slice(0, MOST_SHOWN);
  const message = `the files could not be saved: ${why}${isOver ? ", " : ". "}${tries}; ${look}; ${giveUp}`;
  if (claim.status?.phase !== "ReleaseFailed" || claim.status.message !== message) {
    context.log.warn({ claim: name, reason, error }, "files could not be saved");
    const condition: Condition = { type: FILES_SAVED, status: "False", lastTransitionTime: since, reason, message };
    const kept = [...otherConditions(claim, FILES_SAVED), condition];
    const status: ClaimStatusPatch = { phase: "ReleaseFailed", reason, message, conditions: kept };
    const failed = await patchClaimStatus(claim, status, context);
    // An Event holds 1024 characters.
    context.events.record({
      ...{ resource: claims, object: failed, type: "Warning", reason: isOver ? reason : "ReleaseFailed" },
      message: `the files could not be saved: ${why.slice(0, 500)}${isOver ? ", " : ". "}${tries}; ${giveUp}`,
    });
  }
  return { requeueAfterMs: isOver && !isHeldByLauncher(pod) ? Math.max(retryInMs, LATE_RETRY_MS) : retryInMs };
}
