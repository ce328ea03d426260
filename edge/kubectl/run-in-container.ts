import type { Clock } from "../../crds/client/clock.ts";
import { startDeadline, whenAborted } from "../../crds/waits.ts";
import type { Kubectl } from "./kubectl.ts";
import { createBoundedText } from "./kubectl.ts";

/** What came of a command in a container. */
export type ContainerRun =
  | {
      readonly kind: "ended";
      readonly exitCode: number;
      readonly stdout: string;
      readonly stderr: string;
      /** Whether more was printed than was to be kept. */
      readonly isCut: boolean;
    }
  /** kubectl itself failed, with these last words; whether the command ran is not known. */
  | { readonly kind: "failed"; readonly stderr: string }
  /** The time is up; the command may still run. */
  | { readonly kind: "late" }
  /** The client went; the command may still run. */
  | { readonly kind: "client gone" }
  /** This server stops; the command may still run. */
  | { readonly kind: "stopped" };

/**
 * kubectl's own last words where the command ended with another code than 0, which it then ends with too. They follow
 * the command's last byte, which need not be a newline.
 */
const COMMAND_ENDED = /command terminated with exit code (\d+)\s*$/;

/**
 * Runs a command in a container of a pod, by kubectl; no shell is involved here or there.
 *
 * Output can be missing though the exit code is 0 (docs/decisions/snapshots.md#a-list-says-its-length): where that
 * matters, the command says how much there is.
 *
 * @param request.maxBytes of standard output, and of standard error; what comes after them is dropped
 * @throws HttpError 503 as {@link Kubectl.start} does
 */
export async function runInContainer(
  request: { pod: string; container: string; command: readonly string[]; timeoutMs: number; maxBytes: number },
  options: { kubectl: Kubectl; clock: Clock; clientGone: AbortSignal | undefined },
): Promise<ContainerRun> {
  const { pod, container, command, timeoutMs, maxBytes } = request;
  const { kubectl, clock, clientGone } = options;
  const child = await kubectl.start(["exec", pod, "--container", container, "--", ...command], { pod });
  const stdout = createBoundedText(maxBytes);
  const stderr = createBoundedText(maxBytes);
  child.stdout.on("data", (chunk: Uint8Array) => stdout.add(chunk));
  child.stderr.on("data", (chunk: Uint8Array) => stderr.add(chunk));

  const deadline = startDeadline(timeoutMs, clock);
  const stopped = whenAborted([deadline.signal, clientGone]);
  try {
    const ended = await Promise.race([child.ended.then((code) => ({ code })), stopped.promise]);
    if (ended !== undefined) return outcomeOf(ended.code);
    return { kind: clientGone?.aborted ? "client gone" : "late" };
  } finally {
    child.kill();
    stopped.close();
    deadline.close();
  }

  function outcomeOf(code: number | undefined): ContainerRun {
    if (code === undefined) return { kind: "stopped" };
    const ending = COMMAND_ENDED.exec(stderr.end());
    if (code !== 0 && Number(ending?.[1]) !== code) return { kind: "failed", stderr: stderr.end() };
    const printed = stderr.text();
    return {
      kind: "ended",
      exitCode: code,
      stdout: stdout.text(),
      stderr: code === 0 || stderr.cut ? printed : printed.replace(COMMAND_ENDED, ""),
      isCut: stdout.cut || stderr.cut,
    };
  }
}
