import { ArchiveError } from "../../crds/archive/archive-error.ts";
import type { Claim } from "../../crds/claim.ts";
import { givenOverlayId } from "../../crds/claims/claim-pod.ts";
import { sandboxToKeep } from "../../crds/claims/kept-sandbox.ts";
import { NetworkError } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { systemClock } from "../../crds/client/clock.ts";
import { ExecError } from "../../crds/client/exec/exec-outcome.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { podFiles } from "../../crds/snapshots/pod-files.ts";
import { StoreConflict, StoreError } from "../../crds/snapshots/snapshot-store.ts";
import { SNAPSHOTS_NAME } from "../../crds/snapshots/store-folder.ts";
import { inSpan } from "../../crds/tracing/tracer.ts";
import { linkSignals, orAborted, sleep } from "../../crds/waits.ts";
import type { WorkState } from "../background-work.ts";
import { isHeldByLauncher, keepsFiles } from "../launcher/launch-command.ts";
import { isHelperOutdated, isHelperRunning } from "../snapshots/helper-pod.ts";
import type { SaveCall, SavedSnapshot } from "../snapshots/save-pod.ts";
import { ExecFailure } from "../snapshots/streams/exec-output.ts";
import type { ClaimContext, ClaimMemory } from "./context.ts";
import { drainLeftMs } from "./drain.ts";
import { sessionOf } from "./session.ts";

const HELPER_START_LIMIT_MS = 60_000;
/** Needed only if the cache of pods was behind. */
const DRAIN_POLL_MS = 250;
/** Between tries to save a pod whose launcher waits for it. */
const HELD_RETRY_MS = 5000;

/** Where the save of the files of a claim's pod stands; begins it, and what comes before it. */
export function runSave(claim: Claim, pod: Pod, context: ClaimContext): WorkState<SavedSnapshot> {
  // A program may take long to end, and takes no slot of the saves for that.
  const end = keepsFiles(pod.spec) ? runEnd(claim, pod, context) : undefined;
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
  const { checkpoints, programEnds, snapshots, traces, log } = context;
  const { name, uid = "" } = pod.metadata;
  return programEnds.run(
    uid,
    (signal) =>
      countFailure(context, signal, async () => {
        await checkpoints.end(uid);
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
  await orAborted(context.preSaves.get(pod.metadata.uid ?? "") ?? Promise.resolve(), signal);
  const step = context.traces?.releaseStep(claim, "pre-save", { "k8s.pod.name": pod.metadata.name });
  await inSpan(step, () => runPreSave(claim, pod, { context, signal }));
}

function runCopy(claim: Claim, pod: Pod, context: ClaimContext): WorkState<SavedSnapshot> {
  const { tenantId, workloadRef } = claim.spec;
  const { checkpoints, saves, snapshots, metrics, traces } = context;
  return saves.run(
    pod.metadata.uid ?? "",
    (signal, onBytes) =>
      countFailure(context, signal, async () => {
        await checkpoints.end(pod.metadata.uid ?? "");
        const isEnded = keepsFiles(pod.spec);
        await (isEnded ? checkOwner : untilDrained)(claim, pod, context, signal);
        let helper = await untilHelperRuns(context, signal);
        if (!isEnded) await writeOut(claim, pod, context, signal);
        const key = { tenantId, workloadRef };
        const call = { ...saveOf(claim, pod, context), signal };
        const step = () => traces?.releaseStep(claim, "save files", { "k8s.pod.name": pod.metadata.name });
        for (;;) {
          try {
            return await inSpan(step(), () =>
              metrics.timeSnapshot({ operation: "save", onBytes }, (counted) =>
                snapshots.save(key, pod, { ...call, onBytes: counted }),
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

/** What comes before a checkpoint. */
export async function prepareCheckpoint(
  claim: Claim,
  pod: Pod,
  context: ClaimContext,
  signal: AbortSignal,
): Promise<void> {
  await checkOwner(claim, pod, context, signal);
  await untilHelperRuns(context, signal);
  if (podFiles(pod).preSave === undefined) return;
  const { uid = "" } = pod.metadata;
  // Nothing ends the command in the pod, so a release that gives the checkpoint up waits for it.
  const { signal: never } = new AbortController();
  const ran = runPreSave(claim, pod, { context, signal: never });
  const ended = ran.catch(ignore).finally(() => context.preSaves.delete(uid));
  context.preSaves.set(uid, ended);
  await orAborted(ran, signal);
}

function ignore(): void {
  // The checkpoint fails with it.
}

/** What a save of the claim's pod says of its session. */
export function saveOf(claim: Claim, pod: Pod, context: ClaimContext): Omit<SaveCall, "signal"> {
  return {
    session: sessionOf(claim),
    limits: context.informers.quotas.current()?.of(claim.spec.tenantId).limits,
    overlayId: givenOverlayId(pod, claim),
    sandbox: sandboxToKeep(claim),
    isErased: claim.metadata.annotations?.[annotation.erasedAt] !== undefined,
    isFenced: () => !context.isLeading(),
  };
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
