import type { Claim } from "../../crds/claim.ts";
import { canonicalClaim, claimKey, isOver } from "../../crds/claims/claim-key.ts";
import { isDestroyed, isShown } from "../../crds/claims/claim-pod.ts";
import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import { keyOf } from "../../crds/client/watch/store.ts";
import { withDefaults } from "../../crds/defaults.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, claimLabels, finalizer, label } from "../../crds/labels.ts";
import type { Workload } from "../../crds/workload.ts";
import type { OperatorContext } from "../context.ts";
import { type Controller, watch } from "../controller.ts";
import { deletePod } from "../pod/delete-pod.ts";
import { isProgramRunning } from "../pod/pod-state.ts";
import { claimedPodState } from "../pod/program-runs.ts";
import { templateHash } from "../pod/render-pod.ts";
import { memberStates } from "../pool/pool-member.ts";
import type { ReconcileResult } from "../queue.ts";
import { isHelperRunning } from "../snapshots/helper-pod.ts";
import { hasNewPhase, isReadyToUse } from "../workload/readiness.ts";
import { claimPods, hasEditedPod, isCurrent, readClaimPod } from "./claim-pods.ts";
import { isWaiting, patchClaimStatus } from "./claim-status.ts";
import { ensureService } from "./ensure-service.ts";
import { failClaim } from "./fail-claim.ts";
import { lookupId } from "./find-archive.ts";
import { followPod } from "./follow-pod.ts";
import { lostFiles } from "./lost-files.ts";
import { reconcileStarting } from "./reconcile-starting.ts";
import { releaseClaim } from "./release-claim.ts";
import { releaseWhenIdle } from "./release-when-idle.ts";
import { replacePod } from "./replace-pod.ts";
import { needsFiles } from "./restore-files.ts";
import { startPod } from "./start-pod.ts";

// A burst of claims takes more than these; each costs a connection.
const PREPARED_PODS = 2;
/** After a failed precondition. The object's event starts the next run; this does where that event is lost. */
const RECHECK = { requeueAfterMs: 1000 };

/** Gives claims their pods, and takes them through their release. */
export function createClaimController(context: OperatorContext): Controller<"claim"> {
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
    ],
    reconcile: (key) => reconcileClaim(key, context),
  };
}

function changedClaims({ type, object, previous }: Change<Claim>, context: OperatorContext): string[] {
  if (previous !== undefined && lookupId(previous) !== lookupId(object))
    context.archiveLookups.forget(lookupId(previous));
  if (type === "deleted" || !isWaiting(object) || object.metadata.deletionTimestamp !== undefined)
    context.promisedPods.forgetClaim(object.metadata.uid ?? "");
  const others = () => [...context.informers.claims.store.by("key", claimKey(object.spec))].map(keyOf);
  // The tenant's next claim waits for this one's release.
  if (type !== "deleted") return isOver(object) ? others() : [keyOf(object)];
  const { uid = "" } = object.metadata;
  context.archiveLookups.forget(lookupId(object));
  context.restoreFailures.delete(uid);
  context.notices.delete(uid);
  context.timelines.forget(uid);
  context.traces?.forget(uid);
  return others();
}

function* claimsOfWorkload(change: Change<Workload>, { informers }: OperatorContext): Iterable<string> {
  const { object, previous } = change;
  const { name } = object.metadata;
  if (previous !== undefined && previous.spec.service !== object.spec.service)
    for (const claim of informers.claims.store.by("using", name)) yield keyOf(claim);
  if (hasNewPhase(change)) for (const claim of informers.claims.store.by("waitingFor", name)) yield keyOf(claim);
}

function* claimsOfPod(change: Change<Pod>, context: OperatorContext): Iterable<string> {
  const { type, object, previous } = change;
  const { uid = "", labels, annotations } = object.metadata;
  const workload = labels?.[label.workload];
  const claimUid = annotations?.[annotation.claimUid] ?? previous?.metadata.annotations?.[annotation.claimUid];
  const [now, before] = memberStates(change);
  if (now !== "ready" && before === "ready" && !needsFiles(object)) context.snapshots.cancelPrestarted(object);
  if (type === "deleted") forgetPod(object, context);
  if (before === "warming" && now !== "warming") yield* claimsOfPromise(uid, now === "ready", context);
  if (workload !== undefined && (now === "ready") !== (before === "ready")) {
    if (now === "ready") yield* claimsToOffer(workload, context);
    prepareRestores(workload, context);
  }
  if (claimUid === undefined) return;
  if (type !== "deleted") context.nodeSilence.leftMs(object);
  // Files are saved through the program's container, and one that keeps ending does not run for long.
  if (previous !== undefined && isProgramRunning(object) && !isProgramRunning(previous)) context.saves.retryNow(uid);
  for (const claim of context.informers.claims.store.by("uid", claimUid)) yield keyOf(claim);
}

/** A promise holds until the pod is taken or cannot become ready any more. */
function* claimsOfPromise(podUid: string, isReady: boolean, context: OperatorContext): Iterable<string> {
  const claimUid = context.promisedPods.claimOf(podUid);
  if (claimUid === undefined) return;
  if (!isReady) context.promisedPods.forgetPod(podUid);
  for (const claim of context.informers.claims.store.by("uid", claimUid)) yield keyOf(claim);
}

/** Warm pods are offered to the claims that have waited longest, as many as there are pods. */
function* claimsToOffer(workload: string, { informers }: OperatorContext): Iterable<string> {
  let left = informers.pods.store.by("warm", workload).size;
  for (const claim of informers.claims.store.by("waitingFor", workload)) {
    if (left-- <= 0) return;
    yield keyOf(claim);
  }
}

/** Starts the restores' commands in the pods that claims will take next. */
function prepareRestores(name: string, { config, informers, onFailure, snapshots }: OperatorContext): void {
  const workload = informers.workloads.store.get({ namespace: config.namespace, name });
  const template = workload && templateHash(workload, config);
  if (workload === undefined || template === undefined) return;
  if (withDefaults(workload.spec).filesystem.overlayDirs.length === 0) return;
  let left = PREPARED_PODS;
  for (const pod of informers.pods.store.by("warm", `${name}/${template}`)) {
    if (left-- <= 0) return;
    try {
      snapshots.prepare(pod);
    } catch (error) {
      // The event that led here may be another pod's.
      onFailure(error, { object: pod, resource: "pods", handler: "prepare" });
    }
  }
}

function forgetPod(pod: Pod, context: OperatorContext): void {
  const { uid = "" } = pod.metadata;
  context.reservedPods.delete(uid);
  context.promisedPods.forgetPod(uid);
  context.ownPods.delete(uid);
  context.restores.forget(uid);
  context.saves.forget(uid);
  context.fileChecks.forget(uid);
  context.startExplanations.forget(uid);
  context.nodeSilence.forget(uid);
  context.seenTimes.forget(uid);
  context.programRuns.forget(uid);
  context.seenUses.delete(uid);
  context.editedPods.delete(uid);
  context.snapshots.forgetPod(pod);
}

/** Maps a change of the helper pod to the claims that failed or wait because it did not run. */
function* claimsOfHelper({ type, object, previous }: Change<Pod>, context: OperatorContext): Iterable<string> {
  if (type === "deleted" || !isHelperRunning(object)) return;
  if (previous !== undefined && isHelperRunning(previous)) return;
  context.helperStart.announce();
  context.archiveLookups.retryNow();
  context.saves.retryNow();
  for (const claim of context.informers.claims.store.by("needsHelper", "")) yield keyOf(claim);
}

/**
 * Brings one claim towards a running pod of its own, or towards its end.
 *
 * Level-triggered: each run looks only at the claim and its pods as they are now, makes at most the writes that are
 * missing, and leaves the rest to the run that those writes' events start. Killed between any two writes, the next run
 * goes on from there.
 */
async function reconcileClaim(key: string, context: OperatorContext): Promise<ReconcileResult> {
  const claim = context.informers.claims.store.get(key);
  if (claim === undefined) return undefined;
  if (hasEditedPod(claim, context)) return RECHECK;
  try {
    if (claim.metadata.deletionTimestamp !== undefined) return await releaseClaim(claim, context);
    return await fulfilClaim(claim, context);
  } catch (error) {
    // Somebody else wrote the claim, or it is gone.
    if (isConflict(error) || isNotFound(error)) return RECHECK;
    throw error;
  }
}

async function fulfilClaim(claim: Claim, context: OperatorContext): Promise<ReconcileResult> {
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
    if (isAskedAgain || hasFoundWorkload(claim, context)) {
      // An empty one says that the request was answered before: nobody has waited since.
      const timeline = isAskedAgain ? null : [];
      await patchClaimStatus(claim, { phase: "Pending", reason: null, message: null, timeline }, context);
    }
    return undefined;
  }

  const known = [...context.informers.claims.store.by("key", claimKey(claim.spec))];
  const others = known.filter(({ metadata }) => metadata.uid !== claim.metadata.uid);
  const canonical = canonicalClaim([claim, ...others]);
  if (canonical !== undefined && canonical !== claim) {
    // Its files are still being saved, and this claim must not start before they are. Its deletion starts the next run.
    if (canonical.metadata.deletionTimestamp !== undefined) return undefined;
    if (!(await isCurrent(canonical, context))) return RECHECK;
    const message = `tenant "${claim.spec.tenantId}" already holds claim "${canonical.metadata.name}" on workload "${claim.spec.workloadRef}": use that one, or delete it first`;
    return failClaim(claim, context, { reason: "Duplicate", message });
  }

  const isGoing = current === undefined || current.metadata.deletionTimestamp !== undefined;
  if (phase === "Active" && isDestroyed(claim) && isGoing) return awaitAnotherAttempt(claim, context);
  if (current === undefined) return startPod(claim, context);
  const { state, againInMs } = claimedPodState(current, context);
  // A pod that is being deleted is lost already.
  const silentForMs = state.state === "lost" ? undefined : context.nodeSilence.leftMs(current);
  if (silentForMs === 0) return leaveNode(claim, current, context);
  if (phase === "Active" && state.state !== "lost") {
    const lost = lostFiles(claim, current, context);
    if (!lost.isKnown) return soonest(lost.result, silentForMs);
    if (lost.why !== undefined) return replacePod(claim, context, { reason: "PodLost", message: lost.why });
    const followed = await followPod(claim, { pod: current, state }, context);
    const served = await ensureService(followed, current, context);
    const idle = await releaseWhenIdle(followed, current, context);
    return soonest(idle, served?.requeueAfterMs, silentForMs, againInMs);
  }
  return soonest(await reconcileStarting({ claim, pod: current, state }, context), silentForMs, againInMs);
}

/**
 * Goes on with a new pod where the node of the present one has not answered for too long. That one is stale from then
 * on: it is deleted, which its kubelet does when it comes back, and never saved.
 */
async function leaveNode(claim: Claim, pod: Pod, context: OperatorContext): Promise<ReconcileResult> {
  const { uid = "", name } = pod.metadata;
  const present = await context.cluster(pods).of(pod).find();
  if (present?.metadata.uid !== uid || context.nodeSilence.leftMs(present) !== 0) return RECHECK;
  context.restores.forget(uid);
  const seconds = context.config.nodeTimeoutMs / 1000;
  const message = `node "${pod.spec.nodeName}" has not answered for pod "${name}" for ${seconds} s`;
  return replacePod(claim, context, { reason: "PodLost", message });
}

function soonest(result: ReconcileResult, ...waits: (number | undefined)[]): ReconcileResult {
  const given = [result?.requeueAfterMs, ...waits].filter((wait) => wait !== undefined);
  return given.length === 0 ? result : { requeueAfterMs: Math.min(...given) };
}

/** Whether the claim carries the finalizer that holds it through its release, and the labels that it is found by. */
function isPrepared(claim: Claim): boolean {
  const { finalizers, labels = {} } = claim.metadata;
  const isLabelled = Object.entries(claimLabels(claim.spec)).every(([key, value]) => labels[key] === value);
  return isLabelled && finalizers?.includes(finalizer.release) === true;
}

/** Whether the workload exists by now that the claim failed for, as when both were applied from one folder. */
function hasFoundWorkload(claim: Claim, { informers, config }: OperatorContext): boolean {
  if (!isWaiting(claim)) return false;
  const workload = informers.workloads.store.get({ namespace: config.namespace, name: claim.spec.workloadRef });
  return workload !== undefined && isReadyToUse(workload);
}

/** Keeps a claim whose pod was destroyed on purpose in its phase, without an endpoint, until somebody claims again. */
async function awaitAnotherAttempt(claim: Claim, context: OperatorContext): Promise<ReconcileResult> {
  if (!isAnswered(claim)) {
    const pod = await readClaimPod(claim, context);
    const isThere = pod !== undefined && isShown(pod, claim) && pod.metadata.deletionTimestamp === undefined;
    return isThere ? RECHECK : replacePod(claim, context);
  }
  if (claim.status?.endpoint !== undefined) await patchClaimStatus(claim, { phase: "Active", endpoint: null }, context);
  return undefined;
}

/** Adds what the REST API sets at creation and a claim made with kubectl lacks. */
async function prepare(claim: Claim, context: OperatorContext): Promise<ReconcileResult> {
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
