import type { Claim } from "../../crds/claim.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import type { OperatorContext } from "../context.ts";
import { failureMessage, isProgramRunning, type PodState, podState } from "../pod/pod-state.ts";
import type { ReconcileResult } from "../queue.ts";
import { isReadyToUse, rememberRoot } from "../workload/readiness.ts";
import { activateClaim } from "./activate-claim.ts";
import { nextRevision } from "./claim-pods.ts";
import { patchClaimStatus } from "./claim-status.ts";
import { failClaim } from "./fail-claim.ts";
import { replacePod } from "./replace-pod.ts";
import { reportStart } from "./report-start.ts";
import { needsFiles, restoreFiles, startOver, waitsForFiles } from "./restore-files.ts";
import { takeWarmPod } from "./take-warm-pod.ts";

/** Follows a claim's pod from its creation until it is Ready or cannot become so. */
export async function reconcileStarting(
  { claim, pod, state }: { claim: Claim; pod: Pod; state: PodState },
  context: OperatorContext,
): Promise<ReconcileResult> {
  if (!isWarmed(pod)) markStart({ claim, pod, state }, context);
  switch (state.state) {
    case "ready": {
      // The source says `cold+data`: the workload could not start before its files were there.
      context.startExplanations.forget(pod.metadata.uid ?? "");
      const isOpen = pod.metadata.annotations?.[annotation.source] === "pool+data";
      const answer = isOpen ? await restoreFiles({ claim, pod, into: "running" }, context) : undefined;
      if (answer?.restored === false) return answer.result;
      await activateClaim(claim, pod, context);
      return undefined;
    }
    case "failed":
      return failClaim(claim, context, {
        reason: state.reason,
        message: `${failureMessage(state, context.config)}, then claim again`,
      });
    case "needs-root":
      await rememberRoot(pod, context);
      return replacePod(claim, context);
    case "lost":
      // Files that do not fit get every pod evicted that they are restored into.
      if (needsFiles(pod) && claim.status?.phase !== "Active")
        return startOver(claim, new Error(state.message), context);
      return replacePod(claim, context, { reason: "PodLost", message: state.message });
    case "unschedulable":
      if (await switchToWarmPod({ claim, pod }, context)) return undefined;
      if (state.message !== claim.status?.message) {
        await patchClaimStatus(claim, { phase: "Pending", reason: "Unschedulable", message: state.message }, context);
      }
      return undefined;
    case "starting": {
      // One that only has to run for a moment longer stays: a warm one that no operator has proven would take as long.
      const isStarted = podState(pod).state === "ready";
      if (!isStarted && !needsFiles(pod) && (await switchToWarmPod({ claim, pod }, context))) return undefined;
      const answer = waitsForFiles(pod) ? await restoreFiles({ claim, pod, into: "waiting" }, context) : undefined;
      return answer?.restored === false ? answer.result : awaitStart(claim, { ...state, pod }, context);
    }
    default:
      return state satisfies never;
  }
}

/** Whether the pod came from a pool: it started before anybody asked for it. */
function isWarmed({ metadata }: Pod): boolean {
  return metadata.annotations?.[annotation.source]?.startsWith("pool") === true;
}

function markStart(
  { claim, pod, state }: { claim: Claim; pod: Pod; state: PodState },
  { timelines }: OperatorContext,
): void {
  const conditions = pod.status?.conditions ?? [];
  if (conditions.some(({ type, status }) => type === "PodScheduled" && status === "True"))
    timelines.mark(claim, "Scheduled");
  if (isProgramRunning(pod)) timelines.mark(claim, "Started");
  if (state.state === "ready") timelines.mark(claim, "Ready");
}

/** Where nothing has said more. */
const UNKNOWN = "the workload's spec.health, or the program in its image";

async function awaitStart(
  claim: Claim,
  { since, message, pod }: { since: string | undefined; message: string; pod: Pod },
  context: OperatorContext,
): Promise<ReconcileResult> {
  const { creationTimestamp = "", annotations, uid = "" } = pod.metadata;
  const taken = since ?? creationTimestamp;
  // A warm pod may have been there for days before it was bound.
  const startedAt = Math.max(Date.parse(taken), Date.parse(annotations?.[annotation.claimedAt] ?? taken));
  const { startTimeoutMs } = context.config;
  const leftMs = since === undefined ? Number.POSITIVE_INFINITY : startedAt + startTimeoutMs - context.serverNow();
  if (leftMs > 0) {
    const reported = await reportStart(claim, { pod, message, startedAt }, context);
    const nextMs = Math.min(leftMs, reported?.requeueAfterMs ?? leftMs);
    return Number.isFinite(nextMs) ? { requeueAfterMs: nextMs } : undefined;
  }
  const { message: why, mend } = context.startExplanations.last.get(uid)?.explanation ?? { message, mend: UNKNOWN };
  return failClaim(claim, context, {
    reason: "StartTimeout",
    message: `the pod was not ready ${startTimeoutMs / 1000} s after a node took it (${why}): mend ${mend}, then claim again`,
  });
}

/**
 * Gives a claim whose cold pod is still starting a warm pod, if one has become ready meanwhile. The cold pod is stale
 * then, and the claim's next run deletes it: it was its tenant's, so nobody else may get it
 * (docs/decisions/claims.md#a-pod-that-was-bound-to-a-tenant-is-never-reused). Says whether it did.
 */
async function switchToWarmPod(
  { claim, pod: cold }: { claim: Claim; pod: Pod },
  context: OperatorContext,
): Promise<boolean> {
  const { informers, config } = context;
  const workload = informers.workloads.store.get({ namespace: config.namespace, name: claim.spec.workloadRef });
  if (workload === undefined || !isReadyToUse(workload)) return false;
  // While claims come, a pod that is ready goes to one that has none: a start that is thrown away is done twice.
  if (podState(cold).state === "starting" && !context.refillPause.isCalm(workload.metadata.name)) return false;
  const revision = nextRevision(claim, context);
  const source = needsFiles(cold) ? "pool+data" : "pool";
  const resumedFrom = cold.metadata.annotations?.[annotation.resumedFrom];
  const warm = await takeWarmPod({ claim, workload, revision, source, resumedFrom }, context);
  if (warm === undefined) return false;
  context.timelines.restart(claim);
  context.timelines.mark(claim, "Bound");
  // Its files come before it is Active.
  if (source === "pool") await activateClaim(claim, warm, context);
  return true;
}
