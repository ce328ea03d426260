import type { Clock } from "../../crds/client/clock.ts";
import { WORKLOAD_CONTAINER } from "../../crds/workload-container.ts";
import { startDeadline } from "../deadline.ts";
import { HttpError } from "../http-error.ts";
import { createBoundedText } from "./bounded-text.ts";
import type { Kubectl } from "./kubectl.ts";
import { kubectlFailure } from "./kubectl-failure.ts";
import { whenAborted } from "./when-aborted.ts";

/** What a command did (spec.md, section 4.5); `truncated` where more was printed than is shown. */
export interface ExecOutcome {
  stdout: string;
  stderr: string;
  exitCode: number;
  truncated?: true;
}

const MAX_OUTPUT_BYTES = 1024 * 1024;
/**
 * kubectl's own last words where the command ended with another code than 0, which it then ends with too. They follow the command's
 * last byte, which need not be a newline.
 */
const COMMAND_ENDED = /command terminated with exit code (\d+)\s*$/;

/**
 * Runs a command in the workload's container, by kubectl; no shell is involved here or there.
 *
 * @throws HttpError 504 when the time is up; 499 when the client goes; as {@link kubectlFailure} says where kubectl fails
 */
export async function execInPod(
  wish: { name: string; command: readonly string[]; timeoutMs: number },
  options: { kubectl: Kubectl; clock: Clock; clientGone: AbortSignal | undefined },
): Promise<ExecOutcome> {
  const { name, command, timeoutMs } = wish;
  const { kubectl, clock, clientGone } = options;
  const child = await kubectl.start(["exec", name, "--container", WORKLOAD_CONTAINER, "--", ...command]);
  const stdout = createBoundedText(MAX_OUTPUT_BYTES);
  const stderr = createBoundedText(MAX_OUTPUT_BYTES);
  child.stdout.on("data", (chunk: Uint8Array) => stdout.add(chunk));
  child.stderr.on("data", (chunk: Uint8Array) => stderr.add(chunk));

  const deadline = startDeadline(timeoutMs, clock);
  const stopped = whenAborted([deadline.signal, clientGone]);
  try {
    const ended = await Promise.race([child.ended.then((code) => ({ code })), stopped.promise]);
    if (ended === undefined) {
      if (clientGone?.aborted) throw new HttpError(499, "the client went away");
      throw new HttpError(
        504,
        `the command has not ended after ${timeoutMs / 1000} s; it may still run in the instance. body.timeoutSeconds can be up to 3600`,
      );
    }
    return outcomeOf(ended.code);
  } finally {
    child.kill();
    stopped.close();
    deadline.close();
  }

  function outcomeOf(code: number | undefined): ExecOutcome {
    if (code === undefined) throw new HttpError(503, "the server stops; the command may still run in the instance");
    const verdict = COMMAND_ENDED.exec(stderr.end());
    if (code !== 0 && Number(verdict?.[1]) !== code) throw kubectlFailure(stderr.end(), { name });
    const printed = stderr.text();
    return {
      stdout: stdout.text(),
      stderr: code === 0 || stderr.cut ? printed : printed.replace(COMMAND_ENDED, ""),
      exitCode: code,
      ...((stdout.cut || stderr.cut) && { truncated: true as const }),
    };
  }
}
