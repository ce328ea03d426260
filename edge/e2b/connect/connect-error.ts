import { HttpError } from "../../http/http-error.ts";
import { jsonResponse } from "../../http/response.ts";
import { InsideError } from "../../inside/channel.ts";

/** The codes of errors, with the HTTP status of each: https://connectrpc.com/docs/protocol#error-codes */
const statuses = {
  canceled: 499,
  unknown: 500,
  invalid_argument: 400,
  deadline_exceeded: 504,
  not_found: 404,
  already_exists: 409,
  permission_denied: 403,
  resource_exhausted: 429,
  failed_precondition: 400,
  out_of_range: 400,
  unimplemented: 501,
  internal: 500,
  unavailable: 503,
  unauthenticated: 401,
} as const;

type ConnectCode = keyof typeof statuses;

/** The code for each status of an error; `unknown` for others. */
const codes: ReadonlyMap<number, ConnectCode> = new Map([
  [400, "invalid_argument"],
  [401, "unauthenticated"],
  [403, "permission_denied"],
  [404, "not_found"],
  [405, "unimplemented"],
  [408, "deadline_exceeded"],
  [409, "failed_precondition"],
  [410, "unavailable"],
  [413, "resource_exhausted"],
  [415, "invalid_argument"],
  [416, "out_of_range"],
  [429, "resource_exhausted"],
  [499, "canceled"],
  [500, "internal"],
  [501, "unimplemented"],
  [502, "unavailable"],
  // The SDKs take `unavailable` for the end of the sandbox, and this for a call to make later.
  [503, "resource_exhausted"],
  [504, "deadline_exceeded"],
  [507, "failed_precondition"],
]);

/** The code for each code of the program in the pod that says more than the status of its error. */
const insideCodes: ReadonlyMap<string, ConnectCode> = new Map([
  ["exists", "already_exists"],
  ["denied", "permission_denied"],
  ["readOnly", "permission_denied"],
  ["busy", "resource_exhausted"],
  ["tooMany", "resource_exhausted"],
  // The envd of E2B does not list a process that has ended.
  ["ended", "not_found"],
  ["notFolder", "invalid_argument"],
  ["isFolder", "invalid_argument"],
  ["notFile", "invalid_argument"],
  ["isTerminal", "invalid_argument"],
  ["noTerminal", "invalid_argument"],
  ["full", "failed_precondition"],
]);

/** The code of the program in the pod that an error is about. */
export function insideCodeOf({ cause }: HttpError): string | undefined {
  return cause instanceof InsideError ? cause.code : undefined;
}

/** An error as Connect writes it. */
export interface ConnectError {
  readonly code: ConnectCode;
  readonly message: string;
}

export function connectErrorOf(error: HttpError): ConnectError {
  const inside = insideCodeOf(error);
  if (inside === "unknownCall")
    return {
      code: "failed_precondition",
      message: "the tools in this sandbox are older than the server: pause the sandbox and connect to it again",
    };
  const code = insideCodes.get(inside ?? "") ?? codes.get(error.status) ?? "unknown";
  return { code, message: error.message };
}

/** The response of a unary call that has failed. */
export function unaryError(error: HttpError): Response {
  const body = connectErrorOf(error);
  return jsonResponse(body, { status: statuses[body.code], headers: error.headers });
}

/** @throws HttpError 501 that names the call */
export function notImplemented(call: string, why: string): HttpError {
  return new HttpError(501, `${call} is not implemented by tenancy: ${why}`, { expected: true });
}
