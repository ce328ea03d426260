import { NetworkError } from "./client/api-error.ts";
import { ExecError } from "./client/exec/exec-outcome.ts";

/**
 * The fields of an error in the log: its name, message, causes and own fields; also the stack, unless the error is
 * `expected`.
 *
 * JSON omits name, message and cause of an Error.
 */
export function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) };
  // An error with an HTTP status or an exit code is an expected result of a program.
  const isAnswer = "status" in error || "exitCode" in error;
  const isExpected = "expected" in error && error.expected === true;
  const foreseen = isAnswer || isExpected || error instanceof NetworkError || error instanceof ExecError;
  return {
    ...error,
    name: error.name,
    message: error.message,
    ...(error.cause !== undefined && { cause: messageOf(error.cause) }),
    ...(!foreseen && { stack: error.stack }),
  };
}

function messageOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}
