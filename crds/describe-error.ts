import { NetworkError } from "./client/api-error.ts";

/**
 * What the log says of an error: its name, message, causes and own fields; the stack too where nobody foresaw it.
 *
 * JSON leaves the first three out of an Error.
 */
export function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) };
  // An error with an HTTP status is an answer that somebody chose.
  const foreseen = error instanceof NetworkError || "status" in error;
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
