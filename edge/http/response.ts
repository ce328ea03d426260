import { ApiError, NetworkError } from "../../crds/client/api-error.ts";
import { describeError } from "../../crds/describe-error.ts";
import type { Log } from "../../crds/log.ts";
import { HttpError } from "./http-error.ts";
import { JsonResponse, type JsonResponseOptions } from "./json-response.ts";

const isNode = process.versions.bun === undefined && !("deno" in process.versions);

/** A JSON response, 200 unless `status` is given. */
export function jsonResponse(body: unknown, options: JsonResponseOptions = {}): Response {
  return isNode ? (new JsonResponse(body, options) as unknown as Response) : Response.json(body, options);
}

/** The version header of a list: it contains every change up to this resourceVersion. */
export function versionHeader(resourceVersion: string | undefined): Record<string, string> {
  return resourceVersion === undefined ? {} : { "x-tenancy-version": resourceVersion };
}

/**
 * Whether a response's body is a short JSON text that can be read whole; runtimes differ in what follows the type. A
 * long one says that it must not be buffered.
 */
export function isJson(headers: Headers): boolean {
  const isType = headers.get("content-type")?.startsWith("application/json") ?? false;
  return isType && headers.get("x-accel-buffering") !== "no";
}

const UNREACHABLE = "the cluster cannot be reached now; try again shortly";

/**
 * Returns `{error: string}` for a failed request: the only place where errors become statuses.
 *
 * An error that the caller can fix is returned in full. Other errors are logged under the request id, and the caller
 * gets that id. An expired wait and a failed claim go to the debug log, since the claim's own status and Events report
 * them.
 */
export function errorResponse(error: unknown, options: { requestId: string; log: Log }): Response {
  const { status, message, headers } = errorAnswer(error, options);
  return jsonResponse({ error: message }, { status, headers });
}

/** What {@link errorResponse} answers, for other forms of it. */
export function errorAnswer(error: unknown, options: { requestId: string; log: Log }): HttpError {
  const answer = toHttpError(error, options.requestId);
  if (answer.status >= 500) {
    const fields = { requestId: options.requestId, status: answer.status, error: describeError(error) };
    if (answer.expected) options.log.debug(fields, "request failed");
    else options.log.error(fields, "request failed");
  }
  return answer;
}

function toHttpError(error: unknown, requestId: string): HttpError {
  if (error instanceof HttpError) return error;
  if (error instanceof NetworkError) return retryable(UNREACHABLE);
  if (error instanceof ApiError) return fromApiError(error, requestId);
  return internal(requestId);
}

function fromApiError(error: ApiError, requestId: string): HttpError {
  switch (error.status) {
    case 400:
    case 422:
      return new HttpError(400, tidied(error.message));
    case 403:
      if (/exceeded quota/i.test(error.message))
        return retryable(`the namespace's quota is exceeded: ${tidied(error.message)}`);
      if (/denied the? ?request/i.test(error.message)) return new HttpError(400, tidied(error.message));
      return internal(requestId);
    case 404:
      return new HttpError(
        503,
        "the cluster does not have tenancy's resource kinds or its namespace; apply the manifests first",
      );
    case 409:
      return new HttpError(
        409,
        error.reason === "AlreadyExists" ? tidied(error.message) : "the object was changed in the meantime; try again",
      );
    case 413:
      return new HttpError(413, "body: is larger than the cluster allows for one object");
    case 429:
    case 502:
    case 503:
    case 504:
      return retryable(UNREACHABLE);
    default:
      return internal(requestId);
  }
}

function retryable(message: string): HttpError {
  return new HttpError(503, message, { headers: { "retry-after": "1" } });
}

function internal(requestId: string): HttpError {
  return new HttpError(500, `internal error; the server's log has details under request id ${requestId}`);
}

/**
 * Removes the API server's prefix: of `TenancyWorkload.tenancy.dev "x" is invalid: spec...` the part after the colon
 * stays.
 */
function tidied(message: string): string {
  return message
    .replace(/^[\w.]+ "[^"]*" is (?:invalid|forbidden): /, "")
    .replace(/^admission webhook "[^"]*" denied the request: /, "")
    .replace(/^\[(.*)\]$/s, "$1");
}
