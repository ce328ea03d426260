import type { Status } from "../kubernetes.ts";
import { ApiError } from "./api-error.ts";
import { cutManagedFields } from "./managed-fields.ts";

const maxQuotedLength = 300;

/**
 * The JSON of the API server's answer, without `managedFields`. Do not use the body afterwards.
 *
 * @throws ApiError if the status is not of the 200s, or the body is not JSON
 */
export function parseAnswer(
  answer: { status: number; body: Buffer },
  asked: { method: string; path: string },
): unknown {
  const { status } = answer;
  const text = cutManagedFields(answer.body).toString("utf8");
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // The answer is not from an API server, so it has no reason: show its text.
    const quoted = text.trim().slice(0, maxQuotedLength) || "nothing";
    throw new ApiError(`${asked.method} ${asked.path} was answered with ${status}: ${quoted}`, { status, reason: "" });
  }
  if (status >= 200 && status < 300) return json;
  throw apiErrorOf(json as Partial<Status> | null, { status, ...asked });
}

/** The error of a `Status`. @param asked.status the HTTP status, if it came with one */
export function apiErrorOf(
  body: Partial<Status> | null,
  asked: { status: number; method: string; path: string },
): ApiError {
  const { status, method, path } = asked;
  const message = body?.message || `${method} ${path} was answered with ${status}`;
  return new ApiError(message, { status, reason: body?.reason ?? "", details: body?.details });
}
