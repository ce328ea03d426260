import type { Claim } from "../../crds/claim.ts";
import { startsTooEarly } from "../../crds/claims/claim-inputs.ts";
import { containerRun } from "../../crds/claims/claim-pod.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { podFiles } from "../../crds/snapshots/pod-files.ts";
import type { WorkState } from "../background-work.ts";
import { awaitsClaim, hasClaimHook, hookInputs } from "../launcher/claim-hook.ts";
import type { GivenInputs, ReadInputs } from "../launcher/given-inputs.ts";
import { takesInputs } from "../launcher/launch-command.ts";
import { hasTaken, isNeverGiven } from "../launcher/program-starter.ts";
import { startTimeoutOf } from "../pod/start-timeout.ts";
import { InputsMissing, InputsRefused, readInputs } from "./claim-inputs.ts";
import type { ClaimContext } from "./context.ts";
import type { Failure } from "./follow-pod.ts";
import type { Outcome } from "./outcome.ts";

const READ_AHEAD_LIMIT_MS = 10_000;
/** Each is a file in memory, with at least 4 KiB. */
const MOST_TOLD_SECRETS = 256;
const HOOK_FAILED = "entrypoint.onClaim has not succeeded";
const HOOK_FIX = "it in the workload, or the program in its image";
const NO_INPUTS: ReadInputs = { env: new Map(), secrets: new Map(), files: [] };

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
 * all files are restored, and has to be healthy. A program with a hook is told of the claim first.
 *
 * @param unready why the pod is not ready: while such a program starts, its probe can fail. @default it is ready
 * @param readAhead used by the first try of the start. @default the inputs are read then
 */
export function activate(
  claim: Claim,
  { pod, unready, readAhead }: { pod: Pod; unready?: string; readAhead?: ReadAhead },
  context: ClaimContext,
): Outcome {
  if (!awaitsClaim(pod)) return claim.spec.inputs === undefined ? { next: "activate", pod } : tooEarly(claim);
  if (isUnableToTake(pod, claim)) {
    const message = `pod "${pod.metadata.name}" is of an operator that knew no spec.inputs`;
    return { next: "replace", why: { reason: "PodLost", message } };
  }
  const { programStarted, timelines, serverNow } = context;
  const { uid = "" } = pod.metadata;
  const work = runStart(pod, { claim, isNew: true, readAhead }, context);
  // It waits while many others start; its limit counts from its own start.
  const { since, error } = programStarted.get(uid) ?? { since: serverNow() };
  const isHooked = hasClaimHook(pod);
  const begun = isHooked ? "entrypoint.onClaim is being called" : "the program is being started";
  const why = error?.message ?? unready ?? begun;
  if (work.state === "done" && unready === undefined) {
    timelines.mark(claim, isHooked ? "OnClaimCalled" : "ProgramStarted");
    return { next: "activate", pod, programRun: work.value };
  }
  if (error instanceof InputsRefused)
    return { next: "fail", reason: "InvalidInputs", message: `${why}; then claim again` };
  const limitMs = startTimeoutOf(pod, context);
  const leftMs = since + limitMs - serverNow();
  if (leftMs <= 0 && error instanceof InputsMissing)
    return { next: "fail", reason: "InvalidInputs", message: `${why}, then claim again` };
  if (leftMs <= 0 && isHooked) {
    const message = `${HOOK_FAILED} for ${limitMs / 1000} s (${why}): fix ${HOOK_FIX}, then claim again`;
    return { next: "fail", reason: "OnClaimFailed", message };
  }
  if (leftMs <= 0) {
    const message = `the program was not ready ${limitMs / 1000} s after its start (${why}): fix the workload's spec.health, or the program in its image, then claim again`;
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

/** Whether the pod is of an operator that knew no inputs. */
function isUnableToTake(pod: Pod, { spec }: Claim): boolean {
  return spec.inputs !== undefined && !takesInputs(pod.spec) && !hasClaimHook(pod);
}

/**
 * Starts the program of an Active claim in a run of its container in which the operator has not started it yet. The
 * launcher has done that itself, unless it has lost its memory, as in a restart of the node. A program with a hook is
 * told of the claim in each run.
 *
 * @param isReady whether the program can be told
 * @returns `programRun`: the run, once the program is started in it, for the claim's status
 * @returns `failure`: why that has to wait for a person
 */
export function keepStarted(
  claim: Claim,
  { pod, isReady }: { pod: Pod; isReady: boolean },
  context: ClaimContext,
): { programRun?: string | undefined; failure?: Failure | undefined; requeueAfterMs?: number } {
  const { uid = "", name } = pod.metadata;
  const run = containerRun(pod);
  if (isUnableToTake(pod, claim)) {
    const message =
      "the program has started without spec.inputs, by an older operator: release the claim, then claim again";
    return { failure: { reason: "InvalidInputs", message } };
  }
  if (!awaitsClaim(pod) || run === undefined) return {};
  if (run === claim.status?.programRun) {
    context.programStarts.forget(uid);
    context.programStarted.delete(uid);
    return {};
  }
  const isHooked = hasClaimHook(pod);
  if (isHooked && !isReady) return {};
  const work = runStart(pod, { claim, isNew: false }, context);
  if (work.state === "done") return { programRun: work.value };
  // It stays while the start is tried again.
  const { error } = context.programStarted.get(uid) ?? {};
  const isWrong = error instanceof InputsMissing || error instanceof InputsRefused;
  const failure = isWrong
    ? { reason: "InvalidInputs", message: `the program cannot be started again: ${error.message}` }
    : isHooked && error !== undefined
      ? {
          reason: "OnClaimFailed",
          message: `the program runs again, and ${HOOK_FAILED} (${error.message}): fix ${HOOK_FIX}`,
        }
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
        if (isNeverGiven(error)) start.hasInputs = false;
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
  if (hasClaimHook(pod)) {
    if (read !== undefined && read.secrets.size > MOST_TOLD_SECRETS)
      throw new InputsRefused(
        `spec.inputs: the Secret has ${read.secrets.size} variables, of at most ${MOST_TOLD_SECRETS} for a program that runs already: give them as one file`,
      );
    return hookInputs(claim, read ?? NO_INPUTS);
  }
  if (read === undefined) return undefined;
  const variables = new Map<string, string | Buffer>([...read.env, ...read.secrets]);
  return { variables, files: read.files, overlayDirs: podFiles(pod).overlayDirs, isSession };
}
