import { ApiError, NetworkError } from "../crds/client/api-error.ts";
import { HttpError } from "./http-error.ts";

/**
 * What the log says of an error: its name, message, causes and own fields; the stack too where nobody foresaw it.
 *
 * JSON leaves the first three out of an Error.
 */
export function describeError(error: unknown): object {
  if (!(error instanceof Error)) return { message: String(error) };
  const foreseen = error instanceof HttpError || error instanceof ApiError || error instanceof NetworkError;
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
