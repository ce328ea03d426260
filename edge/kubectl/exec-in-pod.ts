import type { Clock } from "../../crds/client/clock.ts";
import { WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import { HttpError } from "../http/http-error.ts";
import type { Kubectl } from "./kubectl.ts";
import { instanceError } from "./kubectl-errors.ts";
import { runInContainer } from "./run-in-container.ts";

/** What a command did; `truncated` where more was printed than is shown. */
export interface ExecOutcome {
  stdout: string;
  stderr: string;
  exitCode: number;
  truncated?: true;
}

const MAX_OUTPUT_BYTES = 1024 * 1024;

/**
 * Runs a command in the workload's container.
 *
 * @throws HttpError 504 when the time is up; 499 when the client goes; as {@link instanceError} says where kubectl fails
 */
export async function execInPod(
  request: { name: string; command: readonly string[]; timeoutMs: number },
  options: { kubectl: Kubectl; clock: Clock; clientGone: AbortSignal | undefined },
): Promise<ExecOutcome> {
  const { name, command, timeoutMs } = request;
  const place = { pod: name, container: WORKLOAD_CONTAINER, maxBytes: MAX_OUTPUT_BYTES };
  const run = await runInContainer({ ...place, command, timeoutMs }, options);
  switch (run.kind) {
    case "ended": {
      const { stdout, stderr, exitCode, isCut } = run;
      return { stdout, stderr, exitCode, ...(isCut && { truncated: true as const }) };
    }
    case "failed":
      throw instanceError(run.stderr, { name });
    case "late":
      throw new HttpError(
        504,
        `the command has not ended after ${timeoutMs / 1000} s; it may still run in the instance. body.timeoutSeconds can be up to 3600`,
        { expected: true },
      );
    case "client gone":
      throw new HttpError(499, "the client went away");
    case "stopped":
      throw new HttpError(503, "the server stops; the command may still run in the instance");
    default:
      return run satisfies never;
  }
}
