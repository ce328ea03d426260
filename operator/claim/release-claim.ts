import type { Claim } from "../../crds/claim.ts";
import { isDestroyed, isShown } from "../../crds/claims/claim-pod.ts";
import { isNotFound } from "../../crds/client/api-error.ts";
import { systemClock } from "../../crds/client/clock.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, finalizer } from "../../crds/labels.ts";
import { withTimeLimit } from "../../crds/waits.ts";
import { deletePod } from "../pod/delete-pod.ts";
import { podState } from "../pod/pod-state.ts";
import type { ReconcileResult } from "../queue.ts";
import { removeFinalizer } from "../remove-finalizer.ts";
import { hasStore } from "../snapshots/has-store.ts";
import { boundPods, readClaimPod } from "./claim-pods.ts";
import { type ClaimStatusPatch, patchClaimStatus } from "./claim-status.ts";
import type { ClaimContext } from "./context.ts";
import { drainLeftMs } from "./drain.ts";
import { dropCheckpoint } from "./keep-checkpoints.ts";
import { isDiscardedForExpiry } from "./release-when-expired.ts";
import { idleRelease } from "./release-when-idle.ts";
import { forgetSave } from "./run-save.ts";
import { type FilesStatus, filesToSave, findCheckpoint, saveFiles, tellLost } from "./save-files.ts";
import { mayHaveCheckpoint } from "./session.ts";

const NOTE_LIMIT_MS = 20_000;

/**
 * Releases a deleted claim: sets `Releasing`, saves the files, deletes the pods and waits until they are gone, sets
 * `Released`, then removes the finalizer, which ends the claim. It needs only the claim and the pods, never the
 * workload.
 */
export async function releaseClaim(claim: Claim, context: ClaimContext): Promise<ReconcileResult> {
  const { uid = "", finalizers } = claim.metadata;
  // The cache shows an ended claim until the watch has caught up.
  if (finalizers?.includes(finalizer.release) !== true || context.endedClaims.has(uid)) return undefined;
  context.traces?.releasing(claim);
  const phase = claim.status?.phase;
  // Do not wait for a deleted pod whose node does not answer: the pod can only end.
  const isHeld = (pod: Pod) => pod.metadata.deletionTimestamp === undefined || context.nodeSilence.leftMs(pod) !== 0;
  const bound = () => boundPods(claim, context);
  let pods = bound().filter(isHeld);
  if (pods.length === 0 && phase !== "Released") {
    const unseen = await readClaimPod(claim, context);
    if (unseen !== undefined && isHeld(unseen)) pods = [unseen];
  }
  const { isIdle, shown } = idleRelease(claim, pods, context);
  const isRunning = pods.some((pod) => isInUse(pod, claim, context));
  // Its record is written while the pods end.
  const usage = context.usage.endRelease(claim, { isIdle, isRunning });
  if (usage.beginsAgainAt !== undefined) {
    await patchClaimStatus(claim, { usageSince: new Date(usage.beginsAgainAt).toISOString() }, context);
    return undefined;
  }

  if (pods.length > 0) {
    for (const { metadata } of pods) context.programStarts.forget(metadata.uid ?? "");
    let releasing = claim;
    const { pod: toSave, told, asking } = await filesToSave(claim, pods, context);
    if (asking !== undefined) return asking.result;
    const isTold = told === undefined || claim.status?.files === told.files;
    if ((phase !== "Releasing" && (phase !== "ReleaseFailed" || toSave === undefined)) || !isTold) {
      const status: ClaimStatusPatch = { phase: "Releasing", reason: null, message: null, endpoint: null };
      releasing = await patchClaimStatus(claim, { ...status, ...shown, ...told }, context);
    }
    // Requests in flight may still change the files. When they end, the edge removes its announcement from the pod, and
    // that event starts the next run.
    const drainMs = drainLeftMs(claim, pods, context.serverNow());
    if (drainMs > 0) return { requeueAfterMs: drainMs };
    if (usage.mayBeginAgain === true) return { requeueAfterMs: usage.requeueAfterMs ?? 0 };
    const others = pods.filter((pod) => pod !== toSave);
    await Promise.all(others.map((pod) => deletePod(pod, context)));
    if (toSave !== undefined) {
      const answer = await saveFiles(releasing, toSave, context);
      if (answer.saved === undefined) return answer.result;
      await deletePod(toSave, context);
    }
    context.traces?.podsDeleted(claim);
    // The event of each pod's end starts the next run, unless its node is gone.
    const held = new Set(pods.map(({ metadata }) => metadata.uid));
    const waited = bound().filter(({ metadata }) => held.has(metadata.uid));
    const soonestMs = Math.min(...waited.map((pod) => context.nodeSilence.leftMs(pod) ?? Number.POSITIVE_INFINITY));
    // A time that ran out since the pods were read is one more reason to look again.
    return Number.isFinite(soonestMs) ? { requeueAfterMs: Math.max(100, soonestMs) } : undefined;
  }
  for (const { metadata } of bound()) forgetSave(metadata.uid ?? "", context);
  if (!usage.mayGoOn) return { requeueAfterMs: usage.requeueAfterMs ?? 0 };
  const released = phase === "Released" ? claim : await finishRelease(claim, context);
  noteUse(released, context);
  if (released.status?.files === "discarded") dropCheckpoint(released, context);
  const recordRelease = context.traces?.release(released);
  await context.claimEvents?.released(released);
  await endClaim(released, context);
  recordRelease?.();
  return undefined;
}

/** Whether the tenant could use the pod until the claim was deleted. */
function isInUse(pod: Pod, claim: Claim, { nodeSilence }: ClaimContext): boolean {
  if (!isShown(pod, claim) || isDestroyed(claim) || pod.metadata.deletionTimestamp !== undefined) return false;
  return podState(pod).state !== "lost" && nodeSilence.leftMs(pod) === undefined;
}

async function finishRelease(claim: Claim, context: ClaimContext): Promise<Claim> {
  const { files, snapshot, overlayId, instanceId, sessionSnapshot } = claim.status ?? {};
  const status: ClaimStatusPatch = { phase: "Released", reason: null, message: null, endpoint: null, usageSince: null };
  // Its last pod was lost, and no other has been given to the tenant since.
  const isBetween = overlayId === undefined && sessionSnapshot === undefined && mayHaveCheckpoint(claim);
  if (isBetween && files === undefined)
    return await patchClaimStatus(claim, { ...status, ...(await tellBetween()) }, context);
  const isTold = files !== undefined || (snapshot ?? overlayId ?? sessionSnapshot) === undefined;
  return await patchClaimStatus(claim, { ...status, ...(!isTold && (await tellFiles())) }, context);

  /** What became of the files, of which a checkpoint is the only copy; nothing if there is none. */
  async function tellBetween(): Promise<FilesStatus> {
    if (isGivenUp()) return { files: "discarded" };
    try {
      if ((await findCheckpoint(claim, context)) === undefined) return {};
    } catch (error) {
      context.log.warn({ claim: claim.metadata.name, error }, "cannot find out whether a session has a checkpoint");
      return {};
    }
    return await tellLost(claim, "the session's pod was lost", context);
  }

  function isGivenUp(): boolean {
    const { [annotation.discard]: discard, [annotation.discardIdleSince]: idleSince } =
      claim.metadata.annotations ?? {};
    return discard === "true" || idleSince !== undefined || isDiscardedForExpiry(claim);
  }

  /** What became of the files of a pod that is gone, if the status does not say it. */
  async function tellFiles(): Promise<FilesStatus> {
    if (snapshot !== undefined) return { files: "saved" };
    if (isGivenUp() || isDestroyed(claim)) return { files: "discarded" };
    // Its pod was taken away, and no other has been given to the tenant since.
    if (overlayId === undefined) return { files: "saved" };
    return await tellLost(claim, `pod "${instanceId}" was gone`, context);
  }
}

/**
 * If a claim ends without a save, its archive is kept for `TENANCY_SNAPSHOT_TTL` from now on. A release does not wait
 * for the store: if this write fails, the last use that was noted during the claim counts.
 */
function noteUse({ spec, status }: Claim, context: ClaimContext): void {
  const { config, log, snapshots } = context;
  if (config.snapshots.ttlMs === undefined || !hasStore(context)) return;
  if (status?.snapshot !== undefined) return;
  const { tenantId, workloadRef } = spec;
  const limit = { what: "the record of an archive's last use", ms: NOTE_LIMIT_MS, clock: systemClock };
  withTimeLimit(limit, (signal) => snapshots.touch([{ tenantId, workloadRef }], signal)).catch((error: unknown) =>
    log.warn({ tenantId, workloadRef, error }, "cannot record the last use of an archive"),
  );
}

async function endClaim(claim: Claim, { cluster, endedClaims }: ClaimContext): Promise<void> {
  const { uid = "" } = claim.metadata;
  // Before the write: the watch may show that the claim is gone before the answer comes.
  endedClaims.add(uid);
  try {
    await removeFinalizer({ resource: claims, object: claim, finalizer: finalizer.release }, cluster);
  } catch (error) {
    if (isNotFound(error)) return;
    endedClaims.delete(uid);
    throw error;
  }
}
