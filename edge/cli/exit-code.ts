import { ApiError } from "../client/index.ts";
import { CommandError, UsageError } from "./command.ts";

/** The exit codes, which stay as they are. `exec` has that of the program. */
export const EXIT_CODES = {
  0: "done",
  1: "an error that has no code of its own",
  2: "a mistake in the command line",
  3: "not found",
  4: "not allowed: no key, a wrong one, or one of another role",
  5: "a conflict with the present state, such as a claim that is not active",
  6: "the API cannot be reached or is busy, or the time is up",
  130: "ended by Ctrl-C",
} as const;

const BY_STATUS: Readonly<Record<number, number>> = {
  ...{ 0: 6, 401: 4, 403: 4, 404: 3, 408: 6, 409: 5, 410: 3, 412: 5, 429: 6, 502: 6, 503: 6, 504: 6 },
};

/** The exit code and the message of what a command has thrown. */
export function failureOf(error: unknown): { exitCode: number; message: string } {
  if (error instanceof UsageError) return { exitCode: 2, message: error.message };
  if (error instanceof CommandError) return { exitCode: error.exitCode, message: error.message };
  if (error instanceof ApiError) return { exitCode: BY_STATUS[error.status] ?? 1, message: messageOf(error) };
  return { exitCode: 1, message: error instanceof Error ? error.message : String(error) };
}

function messageOf({ status, message, requestId }: ApiError): string {
  if (status === 0 && message.includes("cannot be reached"))
    return `${message}; start it, or name another with --url or TENANCY_URL`;
  if (status === 401) return `${message}; log in with tenancy login, or give a key with --key-file or TENANCY_KEY`;
  return status >= 500 && status !== 504 && requestId !== undefined ? `${message} (request ${requestId})` : message;
}
