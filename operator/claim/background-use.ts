import * as v from "valibot";
import type { Claim } from "../../crds/claim.ts";
import { isProgramRunning } from "../../crds/claims/claim-pod.ts";
import { ExecError } from "../../crds/client/exec/exec-outcome.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, TOOLS_INSIDE, WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import { collectOutput, ExecFailure } from "../snapshots/streams/exec-output.ts";
import { askPod, type PodAnswer } from "./ask-pod.ts";
import type { ClaimContext } from "./context.ts";

const ASK_LIMIT_MS = 10_000;
const MOST_BYTES = 1024;

/** What `inside background` prints. */
const answerSchema = v.object({ unusedMs: v.nullable(v.pipe(v.number(), v.minValue(0))) });

/**
 * Asks the pod for its processes in the background, if they count as use of the instance
 * (`idle.countBackgroundProcesses`). Ask only when the claim is to be released: each time is an exec.
 *
 * A pod that does not answer is asked again: a release would need its answers too, to save the files.
 *
 * @returns when a process last ran in the background, in milliseconds of `performance.now()`; undefined if none did
 */
export function backgroundUse(claim: Claim, pod: Pod, context: ClaimContext): PodAnswer<number | undefined> {
  const { exec, config, backgroundChecks, log } = context;
  const { name, annotations } = pod.metadata;
  if (exec === undefined || annotations?.[annotation.countBackground] !== "true" || !isProgramRunning(pod))
    return { isKnown: true, value: undefined };
  const target = {
    ...{ namespace: config.namespace, pod: name, container: WORKLOAD_CONTAINER },
    command: [TOOLS_INSIDE, "background"],
  };
  const read = async (signal: AbortSignal): Promise<number | undefined> => {
    const limits = { timeoutMs: ASK_LIMIT_MS, maxBytes: MOST_BYTES };
    const output = await collectOutput(exec, { target, signal, ...limits }).catch(ifNoTools);
    if (output === undefined) return undefined;
    const { exitCode, stdout, stderr } = output;
    if (exitCode !== 0) throw new ExecFailure(`inside background ended with ${exitCode}: ${stderr}`, { exitCode });
    const { unusedMs } = v.parse(answerSchema, JSON.parse(stdout));
    return unusedMs === null ? undefined : performance.now() - unusedMs;
  };
  const ask: typeof read = (signal) =>
    read(signal).catch((error: unknown) => {
      if (!signal.aborted) log.warn({ pod: name, error }, "cannot read the background processes of an idle pod");
      throw error;
    });
  return askPod({ claim, pod, ask }, backgroundChecks, context);
}

/** Without the tools in its pod, an instance has no processes that the API started. */
function ifNoTools(error: unknown): undefined {
  if (error instanceof ExecError && error.reason === "CommandNotFound") return undefined;
  throw error;
}
