import type { Claim } from "../../crds/claim.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import type { OperatorContext } from "../context.ts";
import { failureMessage, type PodState } from "../pod/pod-state.ts";
import type { ReconcileResult } from "../queue.ts";
import { activateClaim } from "./activate-claim.ts";
import { patchClaimStatus } from "./claim-status.ts";
import { failClaim } from "./fail-claim.ts";
import { rememberRoot } from "./remember-root.ts";
import { replacePod } from "./replace-pod.ts";
import { needsFiles, restoreFiles, startOver, waitsForFiles } from "./restore-files.ts";
import { switchToWarmPod } from "./switch-to-warm-pod.ts";

/** Follows a claim's pod from its creation until it is Ready or cannot become so. */
export async function superviseStart(
  { claim, pod, state }: { claim: Claim; pod: Pod; state: PodState },
  context: OperatorContext,
): Promise<ReconcileResult> {
  switch (state.state) {
    case "ready": {
      // The source says `cold+data`: the workload could not start before its files were there.
      const isOpen = pod.metadata.annotations?.[annotation.source] === "pool+data";
      const answer = isOpen ? await restoreFiles({ claim, pod, into: "running" }, context) : undefined;
      if (answer?.restored === false) return answer.result;
      await activateClaim(claim, pod, context);
      return undefined;
    }
    case "failed":
      return failClaim(claim, context, {
        reason: state.reason,
        message: `${failureMessage(state, context.config)}: mend the workload, then claim again`,
      });
    case "needs-root":
      await rememberRoot(claim.spec.workloadRef, context);
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
      if (!needsFiles(pod) && (await switchToWarmPod({ claim, pod }, context))) return undefined;
      const answer = waitsForFiles(pod) ? await restoreFiles({ claim, pod, into: "waiting" }, context) : undefined;
      return answer?.restored === false ? answer.result : awaitStart(claim, { ...state, pod }, context);
    }
    default:
      return state satisfies never;
  }
}

async function awaitStart(
  claim: Claim,
  { since, message, pod }: { since: string | undefined; message: string; pod: Pod },
  context: OperatorContext,
): Promise<ReconcileResult> {
  if (since === undefined) return undefined;
  const { startTimeoutMs } = context.config;
  // A warm pod may have been there for days before it was bound.
  const boundAt = Date.parse(pod.metadata.annotations?.[annotation.claimedAt] ?? since);
  const leftMs = Math.max(Date.parse(since), boundAt) + startTimeoutMs - Date.now();
  if (leftMs > 0) return { requeueAfterMs: leftMs };
  return failClaim(claim, context, {
    reason: "StartTimeout",
    message: `the pod was not ready ${startTimeoutMs / 1000} s after a node took it (${message}): mend the workload, then claim again`,
  });
}
