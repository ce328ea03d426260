import type { Claim } from "../../crds/claim.ts";
import { canonicalClaim, claimKey, isOver } from "../../crds/claims/claim-key.ts";
import { isDestroyed, isProgramRunning, isShown } from "../../crds/claims/claim-pod.ts";
import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import { keyOf } from "../../crds/client/watch/store.ts";
import { takesClaimInputs, withDefaults } from "../../crds/defaults.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, claimLabels, finalizer, label } from "../../crds/labels.ts";
import type { Workload } from "../../crds/workload.ts";
import { hasNewPhase, isReadyToUse } from "../../crds/workload-phase.ts";
import { type Controller, watch } from "../controller.ts";
import { deletePod } from "../pod/delete-pod.ts";
import { currentRevision } from "../pod/pod-identity.ts";
import { type PodState, podState } from "../pod/pod-state.ts";
import { claimedPodState } from "../pod/program-runs.ts";
import { templateHash } from "../pod/render-pod.ts";
import { memberStates } from "../pool/pool-member.ts";
import type { ReconcileResult } from "../queue.ts";
import { WAITING_FOR_ROOM } from "../room/context.ts";
import { isHelperRunning } from "../snapshots/helper-pod.ts";
import { claimPods, hasEditedPod, isCurrent, readClaimPod } from "./claim-pods.ts";
import { isWaiting } from "./claim-status.ts";
import { conclude, concludeUnanswered } from "./conclude.ts";
import { type ClaimContext, forgetClaim, forgetClaimPod, lookupId } from "./context.ts";
import { ensureService } from "./ensure-service.ts";
import { followPod } from "./follow-pod.ts";
import { dropCheckpoint, keepCheckpoints } from "./keep-checkpoints.ts";
import { lostFiles } from "./lost-files.ts";
import { isMoving, moveSession } from "./move-session.ts";
import { type Outcome, RECHECK, sooner, soonest } from "./outcome.ts";
import { reconcileStarting } from "./reconcile-starting.ts";
import { releaseClaim } from "./release-claim.ts";
import { followExpiry } from "./release-when-expired.ts";
import { releaseWhenIdle } from "./release-when-idle.ts";
import { needsFiles } from "./restore-files.ts";
import { retrySave } from "./run-save.ts";
import { startPod } from "./start-pod.ts";
import { keepStarted } from "./start-program.ts";
import { QUOTAS_INVALID } from "./tenant-room.ts";

// A burst of claims takes more pods than these, but each prepared pod costs a connection.
const PREPARED_PODS = 2;

/** Gives pods to claims, and releases claims. */
export function createClaimController(context: ClaimContext): Controller<"claim"> {
  const { informers } = context;
  return {
    name: "claim",
    priority: 0,
    concurrency: 64,
    watches: [
      // A new leader begins with the claims that wait.
      watch(informers.workloads, (change) => claimsOfWorkload(change, context)),
      watch(informers.claims, (change) => changedClaims(change, context)),
      watch(informers.pods, (change) => claimsOfPod(change, context)),
      watch(informers.helperPods, (change) => claimsOfHelper(change, context)),
      watch(informers.quotas.configMap, () => claimsWithoutQuotas(context)),
    ],
    reconcile: (key) => reconcileClaim(key, context),
  };
}

function changedClaims({ type, object, previous }: Change<Claim>, context: ClaimContext): string[] {
  if (previous !== undefined && lookupId(previous) !== lookupId(object))
    context.archiveLookups.forget(lookupId(previous));
  const others = () => [...context.informers.claims.store.by("key", claimKey(object.spec))].map(keyOf);
  const isPending =
    (object.status?.phase ?? "Pending") === "Pending" && object.metadata.deletionTimestamp === undefined;
  const isFree = (type === "deleted" || !isPending) && context.promisedPods.forgetClaim(object.metadata.uid ?? "");
  const offered = isFree ? [...claimsToOffer(object.spec.workloadRef, context)] : [];
  // The tenant's next claim waits for this one's release.
  if (type !== "deleted") return [...(isOver(object) ? others() : [keyOf(object)]), ...offered];
  forgetClaim(object, context);
  return [...others(), ...offered];
}

function* claimsOfWorkload(change: Change<Workload>, { informers }: ClaimContext): Iterable<string> {
  const { object, previous } = change;
  const { name } = object.metadata;
  const hasNewUse =
    previous !== undefined &&
    (previous.spec.service !== object.spec.service ||
      previous.spec.filesystem?.checkpointSeconds !== object.spec.filesystem?.checkpointSeconds);
  if (hasNewUse) for (const claim of informers.claims.store.by("using", name)) yield keyOf(claim);
  if (hasNewPhase(change)) for (const claim of informers.claims.store.by("waitingFor", name)) yield keyOf(claim);
}

function* claimsOfPod(change: Change<Pod>, context: ClaimContext): Iterable<string> {
  const { type, object, previous } = change;
  const { uid = "", labels, annotations } = object.metadata;
  const workload = labels?.[label.workload];
  const claimUid = annotations?.[annotation.claimUid] ?? previous?.metadata.annotations?.[annotation.claimUid];
  const [now, before] = memberStates(change);
  if (now !== "ready" && before === "ready" && !needsFiles(object)) context.snapshots.cancelPrestarted(object);
  if (now !== "ready" && before === "ready" && claimUid === undefined) context.programStarter.cancelPrestarted(object);
  if (type === "deleted") forgetClaimPod(object, context);
  const isStuck = context.promisedPods.claimOf(uid) !== undefined && podState(object).state === "unschedulable";
  if ((now !== before && now !== "warming") || isStuck) yield* claimsOfPromise(uid, now === "ready", context);
  if (workload !== undefined && (now === "ready") !== (before === "ready")) {
    if (now === "ready") yield* claimsToOffer(workload, context);
    prepareCommands(workload, context);
  }
  if (claimUid === undefined) return;
  if (type !== "deleted") context.nodeSilence.leftMs(object);
  // Its launcher waits for a save until its grace period is over.
  if (object.metadata.deletionTimestamp !== undefined && previous?.metadata.deletionTimestamp === undefined)
    retrySave(uid, context);
  // Files are saved through the program's container. One that keeps crashing runs only for moments, so save at once.
  if (previous !== undefined && isProgramRunning(object) && !isProgramRunning(previous)) retrySave(uid, context);
  for (const claim of context.informers.claims.store.by("uid", claimUid)) yield keyOf(claim);
}

/** A pod stays promised until a claim takes it, or until it cannot become ready any more. */
function* claimsOfPromise(podUid: string, isReady: boolean, context: ClaimContext): Iterable<string> {
  const claimUid = context.promisedPods.claimOf(podUid);
  if (claimUid === undefined) return;
  if (!isReady) context.promisedPods.forgetPod(podUid);
  for (const claim of context.informers.claims.store.by("uid", claimUid)) yield keyOf(claim);
}

/** Offers warm pods to the claims that have waited longest, one claim for each pod. */
function* claimsToOffer(workload: string, { informers }: ClaimContext): Iterable<string> {
  let left = informers.pods.store.by("warm", workload).size;
  for (const claim of informers.claims.store.by("waitingFor", workload)) {
    if (left-- <= 0) return;
    yield keyOf(claim);
  }
}

/** Prestarts the commands that restore files and start programs, in the pods that claims will take next. */
function prepareCommands(
  name: string,
  { config, informers, onFailure, programStarter, snapshots }: ClaimContext,
): void {
  const workload = informers.workloads.store.get({ namespace: config.namespace, name });
  const template = workload && templateHash(workload, config);
  if (workload === undefined || template === undefined) return;
  if (withDefaults(workload.spec).filesystem.overlayDirs.length === 0 && !takesClaimInputs(workload.spec)) return;
  let left = PREPARED_PODS;
  for (const pod of informers.pods.store.by("warm", `${name}/${template}`)) {
    if (left-- <= 0) return;
    try {
      snapshots.prepare(pod);
      programStarter.prepare(pod);
    } catch (error) {
      // Report it for this pod: the event may be another pod's.
      onFailure(error, { object: pod, resource: "pods", handler: "prepare" });
    }
  }
}

/** Maps a helper pod that has started to run to the claims that failed or wait without it. */
function* claimsOfHelper({ type, object, previous }: Change<Pod>, context: ClaimContext): Iterable<string> {
  if (type === "deleted" || !isHelperRunning(object)) return;
  if (previous !== undefined && isHelperRunning(previous)) return;
  context.helperStart.announce();
  context.archiveLookups.retryNow();
  context.saves.retryNow();
  for (const claim of context.informers.claims.store.by("needsHelper", "")) yield keyOf(claim);
}

/** The claims that wait for valid quotas. */
function* claimsWithoutQuotas({ informers }: ClaimContext): Iterable<string> {
  for (const claim of informers.claims.store.values()) if (claim.status?.reason === QUOTAS_INVALID) yield keyOf(claim);
}

/**
 * Brings one claim closer to a running pod, or to the end of its release.
 *
 * Level-triggered: each run reads only the present claim and its pods, makes the missing writes, and leaves the rest to
 * the next run, which the events of these writes start. If the operator is killed between two writes, the next run
 * continues there.
 */
async function reconcileClaim(key: string, context: ClaimContext): Promise<ReconcileResult> {
  const claim = context.informers.claims.store.get(key);
  if (claim === undefined) return undefined;
  if (hasEditedPod(claim, context)) return RECHECK;
  try {
    await concludeUnanswered(claim, context);
    if (claim.metadata.deletionTimestamp !== undefined) {
      context.roomQueue.leave(claim.metadata.uid ?? "");
      return await releaseClaim(claim, context);
    }
    return await fulfilClaim(claim, context);
  } catch (error) {
    // Another client wrote the claim, or it is gone.
    if (isConflict(error) || isNotFound(error)) return RECHECK;
    throw error;
  }
}

async function fulfilClaim(claim: Claim, context: ClaimContext): Promise<ReconcileResult> {
  const expiry = isPrepared(claim) ? await followExpiry(claim, context) : undefined;
  if (expiry?.isWritten) return undefined;
  const step = await nextStep(claim, context);
  const isWaitingElsewhere =
    step !== undefined && "next" in step && step.next === "wait" && step.reason !== WAITING_FOR_ROOM;
  if (isWaitingElsewhere) context.roomQueue.leave(claim.metadata.uid ?? "");
  const result = await conclude(claim, step, context);
  return soonest(result?.requeueAfterMs, expiry?.requeueAfterMs);
}

async function nextStep(claim: Claim, context: ClaimContext): Promise<Outcome> {
  if ((claim.status?.phase ?? "Pending") === "Pending") context.timelines.mark(claim, "Seen");
  if (!isPrepared(claim)) return prepare(claim, context);
  const { current, stale } = claimPods(claim, context);
  if (stale.length > 0) {
    if (!(await isCurrent(claim, context))) return RECHECK;
    await Promise.all(stale.map((pod) => deletePod(pod, context)));
  }

  const phase = claim.status?.phase ?? "Pending";
  if (phase === "Error") {
    const isAskedAgain = !isAnswered(claim);
    if (!isAskedAgain && !hasFoundWorkload(claim, context)) return undefined;
    // An empty timeline: the request was answered before, so no caller waits.
    const timeline = isAskedAgain ? null : [];
    // Its checkpoint would fail again, if that is what could not be restored. It stays as an older version.
    const session = claim.status?.reason === "RestoreFailed" ? { sessionStart: currentRevision(claim) } : {};
    return { next: "write", status: { phase: "Pending", reason: null, message: null, timeline, ...session } };
  }

  const known = [...context.informers.claims.store.by("key", claimKey(claim.spec))];
  const others = known.filter(({ metadata }) => metadata.uid !== claim.metadata.uid);
  const canonical = canonicalClaim([claim, ...others]);
  if (canonical !== undefined && canonical !== claim) {
    // The canonical claim's files are still being saved, and this claim must start after that. Its deletion starts the
    // next run.
    if (canonical.metadata.deletionTimestamp !== undefined) return undefined;
    if (!(await isCurrent(canonical, context))) return RECHECK;
    const message = `tenant "${claim.spec.tenantId}" already holds claim "${canonical.metadata.name}" on workload "${claim.spec.workloadRef}": use that one, or delete it first`;
    return { next: "fail", reason: "Duplicate", message };
  }

  if (isMoving(claim, current, context)) return moveSession(claim, current, context);
  const isGoing = current === undefined || current.metadata.deletionTimestamp !== undefined;
  if (phase === "Active" && isGoing && (current === undefined || isDestroyed(claim)))
    return leavePod(claim, current, context);
  if (current === undefined) return startPod(claim, context);
  context.roomQueue.leave(claim.metadata.uid ?? "");
  const { state, againInMs } = claimedPodState(current, context);
  // A pod that is being deleted is lost already.
  const silentForMs = state.state === "lost" ? undefined : context.nodeSilence.leftMs(current);
  if (silentForMs === 0) return leaveNode(current, context);
  const isKept = phase === "Active" && state.state !== "lost";
  const step = isKept
    ? await keepActive({ claim, pod: current, state }, context)
    : await reconcileStarting({ claim, pod: current, state }, context);
  return sooner(step, silentForMs, againInMs);
}

/** Reconciles an Active claim and its pod. */
async function keepActive(
  { claim, pod, state }: { claim: Claim; pod: Pod; state: PodState },
  context: ClaimContext,
): Promise<Outcome> {
  const lost = lostFiles(claim, pod, context);
  if (!lost.isKnown) return lost.result;
  if (lost.value !== undefined) return { next: "replace", why: { reason: "PodLost", message: lost.value } };
  const { requeueAfterMs, ...started } = keepStarted(claim, { pod, isReady: state.state === "ready" }, context);
  const followed = await followPod(claim, { pod, state, ...started }, context);
  const served = await ensureService(followed, pod, context);
  const idle = await releaseWhenIdle(followed, pod, context);
  const checkpoint = await keepCheckpoints(followed, pod, context);
  return sooner(idle, served?.requeueAfterMs, requeueAfterMs, checkpoint?.requeueAfterMs);
}

/**
 * Replaces a pod whose node has not answered for too long. The old pod becomes stale: it is deleted, once its kubelet
 * is back, and its files are never saved.
 */
async function leaveNode(pod: Pod, context: ClaimContext): Promise<Outcome> {
  const { uid = "", name } = pod.metadata;
  const present = await context.cluster(pods).of(pod).find();
  if (present?.metadata.uid !== uid || context.nodeSilence.leftMs(present) !== 0) return RECHECK;
  context.restores.forget(uid);
  // One that is committed late would delete the one that the next pod gets.
  await context.checkpoints.end(uid);
  context.programStarts.forget(uid);
  const seconds = context.config.nodeTimeoutMs / 1000;
  const message = `node "${pod.spec.nodeName}" has not answered for pod "${name}" for ${seconds} s`;
  return { next: "replace", why: { reason: "PodLost", message } };
}

/** Whether the claim has the finalizer of its release, and the labels that clients select claims by. */
function isPrepared(claim: Claim): boolean {
  const { finalizers, labels = {} } = claim.metadata;
  const isLabelled = Object.entries(claimLabels(claim.spec)).every(([key, value]) => labels[key] === value);
  return isLabelled && finalizers?.includes(finalizer.release) === true;
}

/** Whether a claim failed for a missing workload that exists now, for example if both were applied from one folder. */
function hasFoundWorkload(claim: Claim, { informers, config }: ClaimContext): boolean {
  if (!isWaiting(claim)) return false;
  const workload = informers.workloads.store.get({ namespace: config.namespace, name: claim.spec.workloadRef });
  return workload !== undefined && isReadyToUse(workload);
}

/**
 * Replaces the pod of an Active claim that is gone or being deleted. If it was destroyed on purpose, the claim keeps
 * its phase, without an endpoint, until the next claim call.
 */
async function leavePod(claim: Claim, current: Pod | undefined, context: ClaimContext): Promise<Outcome> {
  const wasDestroyed = isDestroyed(claim);
  if (current !== undefined) await deletePod(current, context);
  if (wasDestroyed && isAnswered(claim)) {
    if (claim.status?.endpoint === undefined && claim.status?.usageSince === undefined) return undefined;
    return { next: "write", status: { phase: "Active", endpoint: null, usageSince: null } };
  }
  const pod = await readClaimPod(claim, context);
  const isLeft =
    wasDestroyed && pod !== undefined && (pod.metadata.deletionTimestamp !== undefined || !isShown(pod, claim));
  if (pod !== undefined && !isLeft) return RECHECK;
  await context.checkpoints.end(claim.status?.instanceUid ?? "");
  if (wasDestroyed) {
    dropCheckpoint(claim, context);
    return { next: "replace", saved: null };
  }
  return { next: "replace", why: { reason: "PodLost", message: `pod "${claim.status?.instanceId}" is gone` } };
}

/** Adds the metadata that the REST API sets at creation, and that a claim made with kubectl lacks. */
async function prepare(claim: Claim, context: ClaimContext): Promise<ReconcileResult> {
  const { finalizers = [] } = claim.metadata;
  const metadata = {
    finalizers: [...new Set([...finalizers, finalizer.release])],
    labels: claimLabels(claim.spec),
  };
  await context.cluster(claims).of(claim).patch({ metadata });
  return undefined;
}

/** Whether the status answers the latest attempt: claiming again changes the annotation. */
function isAnswered(claim: Claim): boolean {
  return (claim.status?.attempt ?? "") === (claim.metadata.annotations?.[annotation.attempt] ?? "");
}
