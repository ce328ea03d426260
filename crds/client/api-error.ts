import type { StatusDetails } from "../kubernetes.ts";

/**
 * The API server's refusal of a call.
 *
 * `message` is the server's own, for people; `reason` is for programs (`NotFound`, `Conflict`, `AlreadyExists`, ...),
 * and `""` if the response did not come from an API server.
 * https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/
 */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** The HTTP status. */
  readonly status: number;
  readonly reason: string;
  /** The server's details about fields; not named `details`, which test runners use for their own text. */
  readonly statusDetails: StatusDetails | undefined;

  constructor(message: string, fields: { status: number; reason: string; details?: StatusDetails | undefined }) {
    super(message);
    this.status = fields.status;
    this.reason = fields.reason;
    this.statusDetails = fields.details;
  }
}

/** A request without a response: the connection was refused, failed, timed out, or is not trusted. */
export class NetworkError extends Error {
  override readonly name = "NetworkError";
  /** `false`: no byte of the request can have reached the server; `true`: the server may have carried it out. */
  readonly requestWasSent: boolean;
  /** `true`: it was sent on a connection that the server was closing, so an idempotent request can be repeated. */
  readonly connectionWasStale: boolean;

  constructor(message: string, fields: { cause?: unknown; requestWasSent: boolean; connectionWasStale?: boolean }) {
    super(message, { cause: fields.cause });
    this.requestWasSent = fields.requestWasSent;
    this.connectionWasStale = fields.connectionWasStale ?? false;
  }
}

export function isNotFound(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 404;
}

/** Whether a precondition failed: a stale `resourceVersion`, another `uid`, or a field that another manager owns. */
export function isConflict(error: unknown): error is ApiError {
  if (!(error instanceof ApiError)) return false;
  if (error.status === 409) return error.reason === "Conflict";
  // A patch that names another uid may be refused as a change of it (seen on 1.34).
  return error.status === 422 && error.statusDetails?.causes?.some(({ field }) => field === "metadata.uid") === true;
}

export function isAlreadyExists(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 409 && error.reason === "AlreadyExists";
}

/** Whether the API server gave no answer, or could not do what was asked: the same call may succeed later. */
export function isTransient(error: unknown): boolean {
  return error instanceof NetworkError || (error instanceof ApiError && (error.status === 429 || error.status >= 500));
}

/** Whether the requested resourceVersion or page has expired: list again. */
export function isExpired(error: unknown): error is ApiError {
  return error instanceof ApiError && error.status === 410;
}

/** The result of a read, or undefined if the object does not exist. */
export async function ifFound<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}
