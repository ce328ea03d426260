import * as v from "valibot";
import type { Claim } from "../../crds/claim.ts";
import { isProgramRunning } from "../../crds/claims/claim-pod.ts";
import { ExecError } from "../../crds/client/exec/exec-outcome.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, TOOLS_INSIDE, WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import type { ReconcileResult } from "../queue.ts";
import { collectOutput, ExecFailure } from "../snapshots/streams/exec-output.ts";
import type { ClaimContext } from "./context.ts";

const ASK_LIMIT_MS = 10_000;
const MOST_BYTES = 1024;

/** What `inside background` prints. */
const answerSchema = v.object({ unusedMs: v.nullable(v.pipe(v.number(), v.minValue(0))) });

/**
 * When a process last ran in the background, in milliseconds of `performance.now()`, undefined if none did; or, if that
 * is unknown, when to ask again.
 */
type BackgroundUse =
  | { readonly isKnown: true; readonly usedAt: number | undefined }
  | { readonly isKnown: false; readonly result: ReconcileResult };

/**
 * Asks the pod for its processes in the background, if they count as use of the instance
 * (`idle.countBackgroundProcesses`). Ask only when the claim is to be released: each time is an exec. It runs in the
 * background, since a pod may answer slowly. The answer starts the claim's next run, and counts only for that run.
 *
 * A pod that does not answer is asked again: a release would need its answers too, to save the files.
 */
export function backgroundUse(claim: Claim, pod: Pod, context: ClaimContext): BackgroundUse {
  const { exec, config, backgroundChecks, log } = context;
  const { name, uid = "", annotations } = pod.metadata;
  if (exec === undefined || annotations?.[annotation.countBackground] !== "true" || !isProgramRunning(pod))
    return { isKnown: true, usedAt: undefined };
  const target = {
    ...{ namespace: config.namespace, pod: name, container: WORKLOAD_CONTAINER },
    command: [TOOLS_INSIDE, "background"],
  };
  const ask = async (signal: AbortSignal): Promise<number | undefined> => {
    const limits = { timeoutMs: ASK_LIMIT_MS, maxBytes: MOST_BYTES };
    const output = await collectOutput(exec, { target, signal, ...limits }).catch(ifNoTools);
    if (output === undefined) return undefined;
    const { exitCode, stdout, stderr } = output;
    if (exitCode !== 0) throw new ExecFailure(`inside background ended with ${exitCode}: ${stderr}`, { exitCode });
    const { unusedMs } = v.parse(answerSchema, JSON.parse(stdout));
    return unusedMs === null ? undefined : performance.now() - unusedMs;
  };
  const answer = backgroundChecks.run(uid, ask, () => context.enqueueClaim(claim));
  switch (answer.state) {
    case "running":
      return { isKnown: false, result: undefined };
    case "failed":
      log.warn({ pod: name, error: answer.error }, "cannot read the background processes of an idle pod");
      return { isKnown: false, result: { requeueAfterMs: answer.retryInMs } };
    case "done":
      backgroundChecks.forget(uid);
      return { isKnown: true, usedAt: answer.value };
    default:
      return answer satisfies never;
  }
}

/** Without the tools in its pod, an instance has no processes that the API started. */
function ifNoTools(error: unknown): undefined {
  if (error instanceof ExecError && error.reason === "CommandNotFound") return undefined;
  throw error;
}
