import type { Status } from "../../kubernetes.ts";

/**
 * Why a command could not be run in a container:
 * - `PodGone`: there is no such pod
 * - `ContainerNotRunning`: the container does not exist, has not started, or has ended
 * - `CommandNotFound`: the container has no such program
 * - `Failed`: another cause, which is in the message
 */
type ExecErrorReason = "PodGone" | "ContainerNotRunning" | "CommandNotFound" | "Failed";

/**
 * A command was not run. A command that ran and failed is not an error: it has an exit code. A connection that was cut
 * is a NetworkError.
 */
export class ExecError extends Error {
  override readonly name = "ExecError";
  readonly reason: ExecErrorReason;

  constructor(message: string, fields: { reason: ExecErrorReason; cause?: unknown }) {
    super(message, { cause: fields.cause });
    this.reason = fields.reason;
  }
}

/** What to run, and where. */
export interface ExecTarget {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  /** The program and its arguments; no shell is involved. */
  readonly command: readonly string[];
}

/**
 * The exit code in the message that the status channel carries when the command has ended.
 *
 * Follows
 * https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apimachinery/pkg/util/remotecommand/constants.go
 *
 * @throws ExecError if the command was not run
 */
export function execOutcome(text: string, target: ExecTarget): number {
  const status = parseStatus(text);
  if (status?.status === "Success") return 0;
  const exitCode = status?.details?.causes?.find(({ reason }) => reason === "ExitCode")?.message;
  // A runtime that does not find the program reports the end of its own attempt, with these codes and its own text.
  const message = status?.message || text.trim() || "no reason given";
  if (exitCode !== undefined && /^\d+$/.test(exitCode) && !isRuntimeFailure(message)) return Number(exitCode);
  throw execError(message, target);
}

/** The error for a text in which the API server, the kubelet or the container runtime refused to run a command. */
export function execError(message: string, target: ExecTarget, cause?: unknown): ExecError {
  const { namespace, pod, container, command } = target;
  const text = `Cannot run ${command[0]} in container ${container} of pod ${namespace}/${pod}: ${message}`;
  return new ExecError(text, { reason: reasonOf(message), cause });
}

function isRuntimeFailure(message: string): boolean {
  return /OCI runtime exec failed|failed to exec in container|unable to start container process/.test(message);
}

function reasonOf(message: string): ExecErrorReason {
  if (/pods? "[^"]*" not found|pod does not exist|unable to find pod|pod .*not found/i.test(message)) return "PodGone";
  if (/executable file not found|no such file or directory|exec format error/i.test(message)) return "CommandNotFound";
  const notRunning =
    /container not found|container .*(is not|not) (valid|running|found|created)|is not running|not in running state|cannot exec in a (stopped|deleted)|does not have a host assigned|procReady not received|process does not exist|task .*not found|container_(exited|created)|has no (running )?task|waiting to start|completed pod|stopped state/i;
  return notRunning.test(message) ? "ContainerNotRunning" : "Failed";
}

function parseStatus(text: string): Partial<Status> | undefined {
  try {
    return JSON.parse(text) as Partial<Status>;
  } catch {
    // Servers that speak only v1 to v3 of the protocol send plain text.
    return undefined;
  }
}
