import type { Claim } from "../../crds/claim.ts";
import { isProgramRunning, programStatus } from "../../crds/claims/claim-pod.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import { isReadyToUse } from "../../crds/workload-phase.ts";
import { hasClaimHook } from "../launcher/claim-hook.ts";
import { isHeldByLauncher, keepsFiles, startsOnClaim } from "../launcher/launch-command.ts";
import { deletePod } from "../pod/delete-pod.ts";
import { explainStart } from "../pod/explain-start.ts";
import { failureMessage, type PodState, podState } from "../pod/pod-state.ts";
import { startTimeoutOf } from "../pod/start-timeout.ts";
import type { ReconcileResult } from "../queue.ts";
import type { RestoreInto } from "../snapshots/snapshots.ts";
import { rememberRoot } from "../workload/remember-root.ts";
import { nextRevision } from "./claim-pods.ts";
import { patchClaimStatus } from "./claim-status.ts";
import type { ClaimContext } from "./context.ts";
import { FIRST_REPORT_MS, type Outcome } from "./outcome.ts";
import { needsFiles, restoreFiles, startOver, waitsForFiles } from "./restore-files.ts";
import { filesGivenTo } from "./session.ts";
import { activate, createReadAhead } from "./start-program.ts";
import { takeWarmPod } from "./take-warm-pod.ts";

const RECHECK = { requeueAfterMs: 100 };
const LONGEST_PAUSE_MS = 60_000;
/** After the pod's status has changed. */
const SHORTEST_PAUSE_MS = 2000;

/** Follows a claim's pod from its creation until it is Ready or cannot become Ready. */
export async function reconcileStarting(
  { claim, pod, state }: { claim: Claim; pod: Pod; state: PodState },
  context: ClaimContext,
): Promise<Outcome> {
  if (!isWarmed(pod)) markStart({ claim, pod, state }, context);
  if (state.state === "ready") context.startExplanations.forget(pod.metadata.uid ?? "");
  if (maySwitch(pod, state, context)) {
    const warm = await switchToWarmPod({ claim, pod }, context);
    if (warm !== undefined) return warm;
  }
  const into = filesInto(pod, state);
  const answer = into && (await restoreFiles({ claim, pod, into }, context));
  if (answer?.restored === false) return answer.result;
  switch (state.state) {
    case "ready":
      return activate(claim, { pod }, context);
    case "failed": {
      const message = `${failureMessage(state, context.config)}, then claim again`;
      return { next: "fail", reason: state.reason, message };
    }
    case "needs-root":
      await rememberRoot(pod, context);
      return { next: "replace" };
    case "lost":
      if (pod.metadata.deletionTimestamp !== undefined) {
        if (await isHeldAfterAll(claim, pod, context)) return RECHECK;
        // Its launcher would wait for files to be saved.
        await deletePod(pod, context);
      }
      // Files that do not fit get every pod evicted that they are restored into.
      if (needsFiles(pod) && claim.status?.phase !== "Active")
        return startOver(claim, new Error(state.message), context);
      return { next: "replace", why: { reason: "PodLost", message: state.message } };
    case "unschedulable":
      return { next: "wait", reason: "Unschedulable", message: state.message };
    case "starting":
      // A program with a hook is told only while it is ready.
      if (startsOnClaim(pod.spec) && context.programStarts.look(pod.metadata.uid ?? "") !== undefined)
        return activate(claim, { pod, unready: state.message }, context);
      return awaitStart(claim, { ...state, pod }, context);
    default:
      return state satisfies never;
  }
}

/** Whether the pod of an Active claim waits for its files to be saved, though the cache shows its program as ended. */
async function isHeldAfterAll({ status }: Claim, pod: Pod, { cluster }: ClaimContext): Promise<boolean> {
  if (status?.phase !== "Active" || !keepsFiles(pod.spec)) return false;
  const present = await cluster(pods).of(pod).find({ refresh: true });
  return present !== undefined && present.metadata.uid === pod.metadata.uid && isHeldByLauncher(present);
}

/** Whether a warm pod may replace the pod. */
function maySwitch(pod: Pod, { state }: PodState, { programStarts }: ClaimContext): boolean {
  // Its program may have been started for the claim, or told of it. One that ends then would end in each of the pods.
  if (startsOnClaim(pod.spec) && (isWarmed(pod) || hasRun(pod))) return false;
  const isTold = isWarmed(pod) || programStarts.look(pod.metadata.uid ?? "") !== undefined;
  if (hasClaimHook(pod) && isTold) return false;
  // A pod that only has to run for a moment longer stays: an unproven warm pod would take as long.
  return state === "unschedulable" || (state === "starting" && podState(pod).state !== "ready" && !needsFiles(pod));
}

function hasRun(pod: Pod): boolean {
  const own = programStatus(pod);
  return own !== undefined && (own.restartCount > 0 || own.state?.waiting === undefined);
}

/** How files are restored into the pod now; undefined if none are. */
function filesInto(pod: Pod, { state }: PodState): RestoreInto | undefined {
  // The program of a `cold+data` pod starts only after its files are restored.
  if (state === "ready") {
    if (pod.metadata.annotations?.[annotation.source] !== "pool+data") return undefined;
    return startsOnClaim(pod.spec) ? "held" : "running";
  }
  return state === "starting" && waitsForFiles(pod) ? "waiting" : undefined;
}

/** Whether the pod came from a pool: it started before the claim. */
function isWarmed({ metadata }: Pod): boolean {
  return metadata.annotations?.[annotation.source]?.startsWith("pool") === true;
}

function markStart(
  { claim, pod, state }: { claim: Claim; pod: Pod; state: PodState },
  { timelines }: ClaimContext,
): void {
  const conditions = pod.status?.conditions ?? [];
  if (conditions.some(({ type, status }) => type === "PodScheduled" && status === "True"))
    timelines.mark(claim, "Scheduled");
  if (isProgramRunning(pod)) timelines.mark(claim, "Started");
  if (state.state === "ready") timelines.mark(claim, "Ready");
}

/** If nothing more exact is known. */
const UNKNOWN = "the workload's spec.health, or the program in its image";

async function awaitStart(
  claim: Claim,
  { since, message, pod }: { since: string | undefined; message: string; pod: Pod },
  context: ClaimContext,
): Promise<Outcome> {
  const { creationTimestamp = "", annotations, uid = "" } = pod.metadata;
  const taken = since ?? creationTimestamp;
  // A warm pod may be days older than its binding.
  const startedAt = Math.max(Date.parse(taken), Date.parse(annotations?.[annotation.claimedAt] ?? taken));
  const limitMs = startTimeoutOf(pod, context);
  const leftMs = since === undefined ? Number.POSITIVE_INFINITY : startedAt + limitMs - context.serverNow();
  if (leftMs > 0) {
    const reported = await reportStart(claim, { pod, message, startedAt }, context);
    const nextMs = Math.min(leftMs, reported?.requeueAfterMs ?? leftMs);
    return Number.isFinite(nextMs) ? { requeueAfterMs: nextMs } : undefined;
  }
  const { message: why, fix } = context.startExplanations.last.get(uid)?.explanation ?? { message, fix: UNKNOWN };
  return {
    ...{ next: "fail", reason: "StartTimeout" },
    message: `the pod was not ready ${limitMs / 1000} s after a node took it (${why}): fix ${fix}, then claim again`,
  };
}

/**
 * Gives a claim whose cold pod is still starting a warm pod that has become ready; undefined if there is none. The cold
 * pod becomes stale, and the claim's next run deletes it: it was bound to the tenant, so no other tenant may get it
 * (docs/decisions/claims.md#a-pod-that-was-bound-to-a-tenant-is-never-reused).
 */
async function switchToWarmPod(
  { claim, pod: cold }: { claim: Claim; pod: Pod },
  context: ClaimContext,
): Promise<Outcome> {
  const { informers, config } = context;
  const workload = informers.workloads.store.get({ namespace: config.namespace, name: claim.spec.workloadRef });
  if (workload === undefined || !isReadyToUse(workload)) return undefined;
  const revision = nextRevision(claim, context);
  const source = needsFiles(cold) ? "pool+data" : "pool";
  const given = filesGivenTo(cold);
  const readAhead = createReadAhead(claim, context);
  const warm = await takeWarmPod({ claim, workload, revision, source, given, readAhead }, context);
  if (warm === undefined) return undefined;
  context.timelines.restart(claim);
  context.timelines.mark(claim, "Bound");
  // The files are restored before the claim becomes Active.
  return source === "pool" ? activate(claim, { pod: warm, readAhead }, context) : {};
}

/**
 * Writes to a claim what its pod's start waits for, once the start has taken some seconds, and again after growing
 * pauses if that changes. The lookup runs in the background: the pod may become ready in the meantime.
 *
 * @param message from the pod's status
 * @param startedAt by the API server's clock, in milliseconds since the epoch
 */
export async function reportStart(
  claim: Claim,
  { pod, message, startedAt }: { pod: Pod; message: string; startedAt: number },
  context: ClaimContext,
): Promise<ReconcileResult> {
  const { work, last } = context.startExplanations;
  const { uid = "" } = pod.metadata;
  // A node has taken the pod now.
  if (claim.status?.reason === "Unschedulable") await report(claim, { reason: "Starting", message }, context);
  const before = last.get(uid);
  const pauseMs =
    before === undefined ? FIRST_REPORT_MS : before.message === message ? before.pauseMs : SHORTEST_PAUSE_MS;
  const leftMs = (before?.at ?? startedAt) + pauseMs - context.serverNow();
  if (leftMs > 0) return { requeueAfterMs: leftMs };
  const lookup = work.run(
    uid,
    (signal) => explainStart({ pod, message, signal }, context),
    () => context.enqueueClaim(claim),
  );
  if (lookup.state === "running") return undefined;
  if (lookup.state === "failed") return { requeueAfterMs: lookup.retryInMs };
  const { reason, message: explained } = lookup.value;
  if (claim.status?.message !== explained) await report(claim, { reason, message: explained }, context);
  work.forget(uid);
  const nextMs = Math.min((before?.pauseMs ?? FIRST_REPORT_MS / 2) * 2, LONGEST_PAUSE_MS);
  last.set(uid, { explanation: lookup.value, message, at: context.serverNow(), pauseMs: nextMs });
  return { requeueAfterMs: nextMs };
}

function report(claim: Claim, said: { reason: string; message: string }, context: ClaimContext): Promise<Claim> {
  return patchClaimStatus(claim, { phase: "Pending", ...said }, context);
}
