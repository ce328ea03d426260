import type { Claim } from "../../crds/claim.ts";
import { startsTooEarly } from "../../crds/claims/claim-inputs.ts";
import { containerRun } from "../../crds/claims/claim-pod.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { podFiles } from "../../crds/snapshots/pod-files.ts";
import type { WorkState } from "../background-work.ts";
import type { GivenInputs, ReadInputs } from "../launcher/given-inputs.ts";
import { startsOnClaim, takesInputs } from "../launcher/launch-command.ts";
import { hasTaken, isNeverStarted } from "../launcher/program-starter.ts";
import { InputsMissing, InputsRefused, readInputs } from "./claim-inputs.ts";
import type { ClaimContext } from "./context.ts";
import type { Failure } from "./follow-pod.ts";
import type { Outcome } from "./outcome.ts";

const READ_AHEAD_LIMIT_MS = 10_000;

/** The inputs of a claim, which are read at the first call. */
export type ReadAhead = () => Promise<ReadInputs | undefined>;

/** For a claim whose pod is about to be bound: its inputs are read in the meantime. */
export function createReadAhead(claim: Claim, context: ClaimContext): ReadAhead {
  let reading: ReturnType<ReadAhead> | undefined;
  return () => {
    if (reading !== undefined) return reading;
    reading = readInputs(claim, context, { signal: AbortSignal.timeout(READ_AHEAD_LIMIT_MS) });
    // The pod may not be bound after all. The start of the program reports the failure.
    reading.catch(() => undefined);
    return reading;
  };
}

/**
 * Makes a claim Active whose pod is ready for its tenant. A program that starts with its claim is started first, after
 * all files are restored, and has to be healthy.
 *
 * @param unready why the pod is not ready: while such a program starts, its probe can fail. @default it is ready
 * @param readAhead used by the first try of the start. @default the inputs are read then
 */
export function activate(
  claim: Claim,
  { pod, unready, readAhead }: { pod: Pod; unready?: string; readAhead?: ReadAhead },
  context: ClaimContext,
): Outcome {
  if (!startsOnClaim(pod.spec)) {
    return claim.spec.inputs === undefined ? { next: "activate", pod } : tooEarly(claim);
  }
  if (claim.spec.inputs !== undefined && !takesInputs(pod.spec)) {
    const message = `pod "${pod.metadata.name}" is of an operator that knew no spec.inputs`;
    return { next: "replace", why: { reason: "PodLost", message } };
  }
  const { config, programStarted, timelines, serverNow } = context;
  const { uid = "" } = pod.metadata;
  const work = runStart(pod, { claim, isNew: true, readAhead }, context);
  // It waits while many others start; its limit counts from its own start.
  const { since, error } = programStarted.get(uid) ?? { since: serverNow() };
  const why = error?.message ?? unready ?? "the program is being started";
  if (work.state === "done" && unready === undefined) {
    timelines.mark(claim, "ProgramStarted");
    return { next: "activate", pod, programRun: work.value };
  }
  if (error instanceof InputsRefused)
    return { next: "fail", reason: "InvalidInputs", message: `${why}; then claim again` };
  const leftMs = since + config.startTimeoutMs - serverNow();
  if (leftMs <= 0 && error instanceof InputsMissing)
    return { next: "fail", reason: "InvalidInputs", message: `${why}, then claim again` };
  if (leftMs <= 0) {
    const message = `the program was not ready ${config.startTimeoutMs / 1000} s after its start (${why}): fix the workload's spec.health, or the program in its image, then claim again`;
    return { next: "fail", reason: "StartTimeout", message };
  }
  const requeueAfterMs = Math.min(leftMs, work.state === "failed" ? work.retryInMs : leftMs);
  return { next: "wait", reason: "Starting", message: why, since, requeueAfterMs };
}

/** The end of a claim that brings something to a program which starts before it. */
export function tooEarly({ spec }: Claim): Extract<Outcome, { next: "fail" }> {
  const message = `spec.inputs: ${startsTooEarly(spec.workloadRef)}`;
  return { next: "fail", reason: "InvalidInputs", message };
}

/**
 * Starts the program of an Active claim in a run of its container in which the operator has not started it yet. The
 * launcher has done that itself, unless it has lost its memory, as in a restart of the node.
 *
 * @returns `programRun`: the run, once the program is started in it, for the claim's status
 * @returns `failure`: why that has to wait for a person
 */
export function keepStarted(
  claim: Claim,
  pod: Pod,
  context: ClaimContext,
): { programRun?: string | undefined; failure?: Failure | undefined; requeueAfterMs?: number } {
  const { uid = "", name } = pod.metadata;
  const run = containerRun(pod);
  if (claim.spec.inputs !== undefined && !takesInputs(pod.spec)) {
    const message =
      "the program has started without spec.inputs, by an older operator: release the claim, then claim again";
    return { failure: { reason: "InvalidInputs", message } };
  }
  if (!startsOnClaim(pod.spec) || run === undefined) return {};
  if (run === claim.status?.programRun) {
    context.programStarts.forget(uid);
    context.programStarted.delete(uid);
    return {};
  }
  const work = runStart(pod, { claim, isNew: false }, context);
  if (work.state === "done") return { programRun: work.value };
  // It stays while the start is tried again.
  const { error } = context.programStarted.get(uid) ?? {};
  const isWrong = error instanceof InputsMissing || error instanceof InputsRefused;
  const failure = isWrong
    ? { reason: "InvalidInputs", message: `the program cannot be started again: ${error.message}` }
    : undefined;
  if (work.state === "running") return { failure };
  context.log.debug({ pod: name, error: work.error }, "program not started");
  return { failure, requeueAfterMs: work.retryInMs };
}

function runStart(
  pod: Pod,
  { claim, isNew, readAhead }: { claim: Claim; isNew: boolean; readAhead?: ReadAhead | undefined },
  context: ClaimContext,
): WorkState<string | undefined> {
  const { programStarts, programStarted, programStarter, enqueueClaim, serverNow, timelines } = context;
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
        // The launcher starts the program of a session itself, unless it has lost its memory.
        const isGiven = start.hasInputs ?? !isNew;
        const ahead = before === undefined ? readAhead : undefined;
        const inputs = isGiven ? undefined : await inputsOf(claim, pod, { context, signal, readAhead: ahead });
        // Its limit begins when there is something to start it with.
        if (inputs !== undefined && start.error instanceof InputsMissing)
          Object.assign(start, { since: serverNow(), error: undefined });
        const onGiven = () => timelines.mark(claim, "InputsGiven");
        const isAgain = before !== undefined;
        await programStarter.start(pod, { inputs, isGiven, onGiven, isHealthy: isNew, isAgain, signal });
        start.error = undefined;
      } catch (error) {
        if (hasTaken(error)) start.hasInputs = true;
        if (isNeverStarted(error)) start.hasInputs = false;
        start.error = error instanceof Error ? error : new Error(String(error));
        throw error;
      }
      return run;
    },
    () => enqueueClaim(claim),
    claim.spec.tenantId,
  );
}

async function inputsOf(
  claim: Claim,
  pod: Pod,
  { context, signal, readAhead }: { context: ClaimContext; signal: AbortSignal; readAhead: ReadAhead | undefined },
): Promise<GivenInputs | undefined> {
  const { phase, sessionSnapshot } = claim.status ?? {};
  const isActive = phase === "Active";
  const isSession = isActive || sessionSnapshot !== undefined;
  // The cache has not kept those of an Active claim.
  const whole = isActive ? await context.cluster(claims).of(claim).find({ refresh: true, signal }) : claim;
  if (whole === undefined || whole.metadata.uid !== claim.metadata.uid) throw new Error("the claim is gone");
  const read = await (readAhead?.() ?? readInputs(whole, context, { signal }));
  return read && { ...read, overlayDirs: podFiles(pod).overlayDirs, isSession };
}
