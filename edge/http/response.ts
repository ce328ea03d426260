import { ApiError, NetworkError } from "../../crds/client/api-error.ts";
import { describeError } from "../../crds/describe-error.ts";
import type { Log } from "../../crds/log.ts";
import { HttpError } from "./http-error.ts";
import { JsonResponse, type JsonResponseOptions } from "./json-response.ts";

const isNode = process.versions.bun === undefined && !("deno" in process.versions);

/** A JSON response, 200 unless `status` says otherwise. */
export function jsonResponse(body: unknown, options: JsonResponseOptions = {}): Response {
  return isNode ? (new JsonResponse(body, options) as unknown as Response) : Response.json(body, options);
}

/** The header that says how new a list is: a resourceVersion up to which every change is in it. */
export function versionHeader(resourceVersion: string | undefined): Record<string, string> {
  return resourceVersion === undefined ? {} : { "x-tenancy-version": resourceVersion };
}

/**
 * Whether a response's body is one JSON text, which is short and can be had whole; runtimes differ in what follows the
 * type.
 */
export function isJson(headers: Headers): boolean {
  return headers.get("content-type")?.startsWith("application/json") ?? false;
}

const UNREACHABLE = "the cluster cannot be reached at the moment; try again shortly";

/**
 * Answers a failed request with `{error: string}`: the one place where errors become statuses.
 *
 * What the caller can mend is said in full; anything else is logged under the request id, and the caller gets that id.
 * A wait that is over and a claim that failed, which its own status and Events tell of, are for the debug log.
 */
export function errorResponse(error: unknown, options: { requestId: string; log: Log }): Response {
  const answer = toHttpError(error, options.requestId);
  if (answer.status >= 500) {
    const fields = { requestId: options.requestId, status: answer.status, error: describeError(error) };
    if (answer.expected) options.log.debug(fields, "request failed");
    else options.log.error(fields, "request failed");
  }
  return jsonResponse({ error: answer.message }, { status: answer.status, headers: answer.headers });
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
        return retryable(`the namespace's quota is used up: ${tidied(error.message)}`);
      if (/denied the? ?request/i.test(error.message)) return new HttpError(400, tidied(error.message));
      return internal(requestId);
    case 404:
      return new HttpError(
        503,
        "the cluster does not serve tenancy's resources or its namespace; apply the manifests first",
      );
    case 409:
      return new HttpError(
        409,
        error.reason === "AlreadyExists" ? tidied(error.message) : "the object changed meanwhile; try again",
      );
    case 413:
      return new HttpError(413, "body: is larger than the cluster stores in one object");
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
  return new HttpError(500, `internal error; the server's log tells more under request id ${requestId}`);
}

/**
 * Takes the API server's frame off: `TenancyWorkload.tenancy.dev "x" is invalid: spec...` keeps what follows the colon.
 */
function tidied(message: string): string {
  return message
    .replace(/^[\w.]+ "[^"]*" is (?:invalid|forbidden): /, "")
    .replace(/^admission webhook "[^"]*" denied the request: /, "")
    .replace(/^\[(.*)\]$/s, "$1");
}
