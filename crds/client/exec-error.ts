/**
 * Why a command could not be run in a container:
 * - `PodGone`: there is no such pod
 * - `ContainerNotRunning`: the container is not there, has not started, or has ended
 * - `CommandNotFound`: the container has no such program
 * - `Failed`: something else, told by the message
 */
export type ExecErrorReason = "PodGone" | "ContainerNotRunning" | "CommandNotFound" | "Failed";

/** A command that was not run. One that ran and failed is no error: it has an exit code. A connection that is cut is a NetworkError. */
export class ExecError extends Error {
  override readonly name = "ExecError";
  readonly reason: ExecErrorReason;

  constructor(message: string, fields: { reason: ExecErrorReason; cause?: unknown }) {
    super(message, { cause: fields.cause });
    this.reason = fields.reason;
  }
}
