import type { Writable } from "node:stream";
import type { Clock } from "../../crds/client/clock.ts";
import { createDeferred, startDeadline, whenAborted } from "../../crds/waits.ts";
import type { Kubectl } from "./kubectl.ts";
import { createBoundedText } from "./kubectl.ts";

/** Result of a command in a container. */
export type ContainerRun =
  | {
      readonly kind: "ended";
      readonly exitCode: number;
      readonly stdout: string;
      readonly stderr: string;
      /** Whether more was printed than is kept. */
      readonly isCut: boolean;
    }
  /** kubectl itself failed, with these last words; the command may have run. */
  | { readonly kind: "failed"; readonly stderr: string }
  /** The time limit has passed; the command may still be running. */
  | { readonly kind: "late" }
  /** The client disconnected; the command may still be running. */
  | { readonly kind: "client gone" }
  /** This server is stopping; the command may still be running. */
  | { readonly kind: "stopped" };

/**
 * kubectl's own last words if the command exited with a code other than 0, which is then kubectl's exit code too. They
 * follow the command's last byte, which need not be a newline.
 */
const COMMAND_ENDED = /command terminated with exit code (\d+)\s*$/;

/**
 * Runs a command in a container of a pod with kubectl, without a shell here or there.
 *
 * Output can be missing even with exit code 0 (docs/decisions/snapshots.md#a-list-says-its-length): if that matters,
 * the command must report how much there is.
 *
 * @param request.input what the command reads; sending stops once the command has printed something, and the input ends
 * then
 * @param request.maxBytes of standard output, and of standard error; the rest is dropped
 * @throws HttpError 503 as {@link Kubectl.start} does; the error of the input
 */
export async function runInContainer(
  request: {
    pod: string;
    container: string;
    command: readonly string[];
    timeoutMs: number;
    maxBytes: number;
    input?: AsyncIterable<Uint8Array>;
  },
  options: { kubectl: Kubectl; clock: Clock; clientGone: AbortSignal | undefined },
): Promise<ContainerRun> {
  const { pod, container, command, timeoutMs, maxBytes, input } = request;
  const { kubectl, clock, clientGone } = options;
  const child = await kubectl.start(
    ["exec", pod, ...(input === undefined ? [] : ["--stdin"]), "--container", container, "--", ...command],
    { pod, takesInput: input !== undefined },
  );
  const stdout = createBoundedText(maxBytes);
  const stderr = createBoundedText(maxBytes);
  child.stdout.on("data", (chunk: Uint8Array) => stdout.add(chunk));
  child.stderr.on("data", (chunk: Uint8Array) => stderr.add(chunk));

  let isAnswered = false;
  child.stdout.once("data", () => {
    isAnswered = true;
  });
  const failed = createDeferred<never>();
  if (input !== undefined && child.stdin !== undefined) {
    send(input, child.stdin, () => isAnswered).catch(failed.reject);
  }

  const deadline = startDeadline(timeoutMs, clock);
  const stopped = whenAborted([deadline.signal, clientGone]);
  try {
    const ended = await Promise.race([child.ended.then((code) => ({ code })), stopped.promise, failed.promise]);
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

/** Sends an input at the pace of its reader, and ends it; a failed input is not ended. */
async function send(input: AsyncIterable<Uint8Array>, stdin: Writable, isAnswered: () => boolean): Promise<void> {
  for await (const chunk of input) {
    if (isAnswered() || stdin.destroyed) break;
    if (!stdin.write(chunk)) await untilDrained(stdin);
  }
  stdin.end();
}

function untilDrained(stdin: Writable): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      stdin.off("drain", end);
      stdin.off("close", end);
      resolve();
    };
    stdin.on("drain", end);
    stdin.on("close", end);
    if (stdin.destroyed) end();
  });
}
