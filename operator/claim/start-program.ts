import type { Claim } from "../../crds/claim.ts";
import { containerRun } from "../../crds/claims/claim-pod.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { WorkState } from "../background-work.ts";
import { startsOnClaim } from "../launcher/launch-command.ts";
import type { ClaimContext } from "./context.ts";
import type { Outcome } from "./outcome.ts";

/**
 * Makes a claim Active whose pod is ready for its tenant. A program that starts with its claim is started first, after
 * all files are restored, and has to be healthy.
 *
 * @param unready why the pod is not ready: while such a program starts, its probe can fail. @default it is ready
 */
export function activate(
  claim: Claim,
  { pod, unready }: { pod: Pod; unready?: string },
  context: ClaimContext,
): Outcome {
  if (!startsOnClaim(pod.spec)) return { next: "activate", pod };
  const { config, programStarted, timelines, serverNow } = context;
  const { uid = "" } = pod.metadata;
  const work = runStart(pod, { claim, isHealthy: true }, context);
  // It waits while many others start; its limit counts from its own start.
  const { since, why = unready ?? "the program is being started" } = programStarted.get(uid) ?? { since: serverNow() };
  if (work.state === "done" && unready === undefined) {
    timelines.mark(claim, "ProgramStarted");
    return { next: "activate", pod, programRun: work.value };
  }
  const leftMs = since + config.startTimeoutMs - serverNow();
  if (leftMs <= 0) {
    const message = `the program was not ready ${config.startTimeoutMs / 1000} s after its start (${why}): fix the workload's spec.health, or the program in its image, then claim again`;
    return { next: "fail", reason: "StartTimeout", message };
  }
  const requeueAfterMs = Math.min(leftMs, work.state === "failed" ? work.retryInMs : leftMs);
  return { next: "wait", reason: "Starting", message: why, since, requeueAfterMs };
}

/**
 * Starts the program of an Active claim in a run of its container in which the operator has not started it yet. The
 * launcher has done that itself, unless it has lost its memory, as in a restart of the node.
 *
 * @returns the run, once the program is started in it, for the claim's status
 */
export function keepStarted(
  claim: Claim,
  pod: Pod,
  context: ClaimContext,
): { programRun?: string | undefined; requeueAfterMs?: number } {
  const { uid = "", name } = pod.metadata;
  const run = containerRun(pod);
  if (!startsOnClaim(pod.spec) || run === undefined) return {};
  if (run === claim.status?.programRun) {
    context.programStarts.forget(uid);
    context.programStarted.delete(uid);
    return {};
  }
  const work = runStart(pod, { claim, isHealthy: false }, context);
  if (work.state === "done") return { programRun: work.value };
  if (work.state === "running") return {};
  context.log.debug({ pod: name, error: work.error }, "program not started");
  return { requeueAfterMs: work.retryInMs };
}

function runStart(
  pod: Pod,
  { claim, isHealthy }: { claim: Claim; isHealthy: boolean },
  { programStarts, programStarted, programStarter, enqueueClaim, serverNow }: ClaimContext,
): WorkState<string | undefined> {
  const { uid = "" } = pod.metadata;
  const run = containerRun(pod);
  const known = programStarts.look(uid);
  // What was started in an earlier run of the container has ended with it.
  if (known?.state === "done" && known.value !== run) programStarts.forget(uid);
  return programStarts.run(
    uid,
    async (signal) => {
      const before = programStarted.get(uid);
      const start = before ?? { since: serverNow() };
      programStarted.set(uid, start);
      try {
        await programStarter.start(pod, { isHealthy, isAgain: before !== undefined, signal });
      } catch (error) {
        start.why = error instanceof Error ? error.message : String(error);
        throw error;
      }
      return run;
    },
    () => enqueueClaim(claim),
    claim.spec.tenantId,
  );
}
