import { ArchiveError } from "../../crds/archive/archive-error.ts";
import type { Claim, ClaimStatus } from "../../crds/claim.ts";
import { givenOverlayId, isDestroyed, isShown } from "../../crds/claims/claim-pod.ts";
import { NetworkError } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { systemClock } from "../../crds/client/clock.ts";
import { ExecError } from "../../crds/client/exec/exec-outcome.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label, WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import type { Condition } from "../../crds/schema/condition.ts";
import { podFiles } from "../../crds/snapshots/pod-files.ts";
import { archiveDigits } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { StoreConflict, StoreError } from "../../crds/snapshots/snapshot-store.ts";
import { SNAPSHOTS_NAME } from "../../crds/snapshots/store-folder.ts";
import { inSpan } from "../../crds/tracing/tracer.ts";
import { linkSignals, sleep, withTimeLimit } from "../../crds/waits.ts";
import type { WorkState } from "../background-work.ts";
import { hasLauncher, isHeldByLauncher } from "../launcher/launch-command.ts";
import { podState } from "../pod/pod-state.ts";
import type { ReconcileResult } from "../queue.ts";
import { isHelperOutdated, isHelperRunning } from "../snapshots/helper-pod.ts";
import { TOOLS_BUSYBOX } from "../snapshots/pods/pod-tools.ts";
import type { SavedSnapshot } from "../snapshots/snapshots.ts";
import { ExecFailure } from "../snapshots/streams/exec-output.ts";
import { isCurrent, readClaimPod } from "./claim-pods.ts";
import { type ClaimStatusPatch, FILES_SAVED, patchClaimStatus } from "./claim-status.ts";
import type { ClaimContext, ClaimMemory } from "./context.ts";
import { drainLeftMs } from "./drain.ts";
import { lostFiles } from "./lost-files.ts";
import { isDiscardedForExpiry } from "./release-when-expired.ts";
import { isDiscardedForIdleness } from "./release-when-idle.ts";

const LOOK_LIMIT_MS = 20_000;
const HELPER_START_LIMIT_MS = 60_000;
/** Needed only if the cache of pods was behind. */
const DRAIN_POLL_MS = 250;
const LATE_RETRY_MS = 3_600_000;
const MOST_SHOWN = 8192;
/** Between tries to save a pod whose launcher waits for it. */
const HELD_RETRY_MS = 5000;

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
  const lost = isLost ? state.message : answer?.why;
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
    const conditions = claim.status?.conditions === undefined ? {} : { conditions: otherConditions(claim) };
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

/** Where the save of the files of a claim's pod stands; begins it, and what comes before it. */
export function runSave(claim: Claim, pod: Pod, context: ClaimContext): WorkState<SavedSnapshot> {
  // A program may take long to end, and takes no slot of the saves for that.
  const end = hasLauncher(pod.spec) ? runEnd(claim, pod, context) : undefined;
  const work = end === undefined || end.state === "done" ? runCopy(claim, pod, context) : end;
  if (work.state !== "failed" || work.retryInMs <= HELD_RETRY_MS || !isHeldByLauncher(pod)) return work;
  // The back-off would outlast the grace period of the pod.
  retrySave(pod.metadata.uid ?? "", context);
  return { ...work, retryInMs: HELD_RETRY_MS };
}

/** Lets a save that failed run again at once. */
export function retrySave(podUid: string, { programEnds, saves }: ClaimContext): void {
  programEnds.retryNow(podUid);
  saves.retryNow(podUid);
}

/** Forgets the save of a pod, which is not needed or has ended. */
export function forgetSave(podUid: string, { programEnds, saves }: ClaimMemory): void {
  programEnds.forget(podUid);
  saves.forget(podUid);
}

/** Ends the program of a pod before its files are saved: once, since it is not started again. */
function runEnd(claim: Claim, pod: Pod, context: ClaimContext): WorkState<void> {
  const { programEnds, snapshots, traces, log } = context;
  const { name, uid = "" } = pod.metadata;
  return programEnds.run(
    uid,
    (signal) =>
      countFailure(context, signal, async () => {
        await untilDrained(claim, pod, context, signal);
        await writeOut(claim, pod, context, signal);
        const step = traces?.releaseStep(claim, "stop program", { "k8s.pod.name": name });
        // The lists before and after the save show whether a process that stays changes the files.
        if ((await inSpan(step, () => snapshots.stopProgram(pod, signal))) === "stays")
          log.warn({ pod: name }, "program does not end, its files are saved while it runs");
      }),
    () => context.enqueueClaim(claim),
    claim.spec.tenantId,
  );
}

/** Has the program write out what it holds in memory. */
async function writeOut(claim: Claim, pod: Pod, context: ClaimContext, signal: AbortSignal): Promise<void> {
  if (pod.metadata.annotations?.[annotation.preSave] === undefined) return;
  const step = context.traces?.releaseStep(claim, "pre-save", { "k8s.pod.name": pod.metadata.name });
  await inSpan(step, () => runPreSave(claim, pod, { context, signal }));
}

function runCopy(claim: Claim, pod: Pod, context: ClaimContext): WorkState<SavedSnapshot> {
  const { tenantId, workloadRef } = claim.spec;
  const { saves, snapshots, metrics, traces } = context;
  const isFenced = () => !context.isLeading();
  return saves.run(
    pod.metadata.uid ?? "",
    (signal, onBytes) =>
      countFailure(context, signal, async () => {
        const isEnded = hasLauncher(pod.spec);
        await (isEnded ? checkOwner : untilDrained)(claim, pod, context, signal);
        let helper = await untilHelperRuns(context, signal);
        if (!isEnded) await writeOut(claim, pod, context, signal);
        const key = { tenantId, workloadRef };
        const overlayId = givenOverlayId(pod, claim);
        const isErased = claim.metadata.annotations?.[annotation.erasedAt] !== undefined;
        const step = () => traces?.releaseStep(claim, "save files", { "k8s.pod.name": pod.metadata.name });
        for (;;) {
          try {
            return await inSpan(step(), () =>
              metrics.timeSnapshot("save", () =>
                snapshots.save(key, pod, { overlayId, isErased, signal, isFenced, onBytes }),
              ),
            );
          } catch (error) {
            if (signal.aborted || !isUnreachable(error) || !isLeaving(helper, context)) throw error;
            helper = await untilHelperRuns(context, signal);
          }
        }
      }),
    () => context.enqueueClaim(claim),
    tenantId,
  );
}

async function countFailure<T>({ metrics }: ClaimContext, signal: AbortSignal, run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (!signal.aborted) metrics.saveFailures.inc({ reason: reasonOf(error) });
    throw error;
  }
}

/** Runs the workload's preSave command. A failure ends the save, unless the workload sets `onError: Continue`. */
async function runPreSave(
  claim: Claim,
  pod: Pod,
  { context, signal }: { context: ClaimContext; signal: AbortSignal },
): Promise<void> {
  try {
    await context.snapshots.runPreSave(pod, signal);
  } catch (error) {
    if (signal.aborted || podFiles(pod).preSave?.onError !== "Continue") throw error;
    const message = `${error instanceof Error ? error.message : error}; the files are saved as they are`;
    context.events.record({ resource: claims, object: claim, type: "Warning", reason: "PreSaveFailed", message });
  }
}

/**
 * Waits until no edge has requests in flight at the pod. Reads the pod from the API server: the cache that the release
 * used may not show an announcement yet.
 */
async function untilDrained(claim: Claim, pod: Pod, context: ClaimContext, signal: AbortSignal): Promise<void> {
  for (;;) {
    const present = await checkOwner(claim, pod, context, signal);
    const leftMs = drainLeftMs(claim, [present], context.serverNow());
    if (leftMs === 0) return;
    await sleep(Math.min(leftMs, DRAIN_POLL_MS), { clock: systemClock, signal });
  }
}

/** Checks with the API server that the pod belongs to the claim and its tenant, before any file is read from it. */
async function checkOwner(
  { metadata, spec }: Claim,
  pod: Pod,
  { cluster }: ClaimContext,
  signal: AbortSignal,
): Promise<Pod> {
  const { name, uid } = pod.metadata;
  const present = await cluster(pods).of(pod).get({ signal });
  const { labels, annotations } = present.metadata;
  if (present.metadata.uid !== uid) throw new Error(`pod "${name}" is another than the claim's`);
  if (labels?.[label.tenant] === spec.tenantId && annotations?.[annotation.claimUid] === metadata.uid) return present;
  throw new Error(
    `pod "${name}" carries the tenant "${labels?.[label.tenant]}" and the claim ${annotations?.[annotation.claimUid]}, not "${spec.tenantId}" and ${metadata.uid}`,
  );
}

/**
 * Waits until the helper pod runs. It starts with the first workload that saves files, so an early release may come
 * before it. A leader of another version replaces the helper pod, and does not accept the previous one.
 */
async function untilHelperRuns(context: ClaimContext, signal: AbortSignal): Promise<Pod | undefined> {
  if (context.config.snapshots.store.place.kind !== "volume") return undefined;
  if (runs(helperPod(context), context)) return helperPod(context);
  const linked = linkSignals(signal);
  try {
    // If the helper pod does not start in time, the save fails with its own error.
    const limit = sleep(HELPER_START_LIMIT_MS, { clock: systemClock, signal: linked.signal }).then(() => "over");
    let is: unknown;
    while (is !== "over" && !runs(helperPod(context), context)) {
      is = await Promise.race([context.helperStart.next(), limit]);
    }
  } finally {
    linked.abort();
    linked.close();
  }
  return helperPod(context);
}

/**
 * Whether the helper pod runs and was started by this operator, with its Secret filled. If ours cannot start at
 * present, accept any running helper: it can probably take the files.
 */
function runs(helper: Pod | undefined, { helperStart: { wanted, isFailing } }: ClaimContext): boolean {
  if (helper === undefined || !isHelperRunning(helper)) return false;
  return isFailing || (wanted !== undefined && !isHelperOutdated(helper, wanted));
}

function helperPod({ informers, config }: ClaimContext): Pod | undefined {
  return informers.helperPods.store.get({ namespace: config.namespace, name: SNAPSHOTS_NAME });
}

/** Whether the helper pod is being replaced, or has been. */
function isLeaving(helper: Pod | undefined, context: ClaimContext): boolean {
  if (helper === undefined || !runs(helper, context)) return false;
  const present = helperPod(context);
  return present?.metadata.uid !== helper.metadata.uid || present?.metadata.deletionTimestamp !== undefined;
}

function isUnreachable(error: unknown): boolean {
  return error instanceof NetworkError || (error instanceof StoreError && error.isTransient);
}

function reasonOf(error: unknown): "archive" | "command" | "connection" | "store" | "other" {
  if (error instanceof ArchiveError) return "archive";
  if (error instanceof StoreConflict || error instanceof StoreError) return "store";
  if (error instanceof ExecFailure) return "command";
  return error instanceof NetworkError || error instanceof ExecError ? "connection" : "other";
}

function otherConditions({ status }: Claim): Condition[] {
  return (status?.conditions ?? []).filter(({ type }) => type !== FILES_SAVED);
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
    const kept = [...otherConditions(claim), condition];
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
