import { signal } from "@preact/signals";

/** An error response, with the API's own message. */
export class CallError extends Error {
  /** 0 if the edge could not be reached. */
  readonly status: number;
  readonly requestId: string | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(
    message: string,
    options: { status: number; requestId?: string | undefined; retryAfterMs?: number | undefined; cause?: unknown },
  ) {
    super(message, { cause: options.cause });
    this.status = options.status;
    this.requestId = options.requestId;
    this.retryAfterMs = options.retryAfterMs;
  }
}

/** True after a 401 response; the login then covers the page. */
export const isLoginAsked = signal(false);

/** Increases with each login; reads that were refused are then repeated. */
export const logins = signal(0);

export interface CallOptions {
  readonly body?: unknown;
  /** Value of `If-Match`: the version that the object must still have. */
  readonly ifMatch?: string;
  /** Value of `If-None-Match`: an object that still has this version is not sent, which is an error of status 304. */
  readonly ifNoneMatch?: string;
  readonly accept?: string;
  readonly signal?: AbortSignal;
}

/**
 * Calls the API; `path` is below `/api/v1`.
 *
 * @throws CallError if the response is an error, or the edge cannot be reached
 */
export async function call<T>(
  method: "GET" | "POST" | "PUT" | "DELETE",
  path: string,
  options: CallOptions = {},
): Promise<T> {
  const response = await send(method, path, options);
  return (response.headers.get("content-type") ?? "").startsWith("application/json")
    ? ((await response.json()) as T)
    : ((await response.text()) as T);
}

/** For `catch`: returns undefined for a 404 and throws every other error again. */
export function ifGone(error: unknown): undefined {
  if (error instanceof CallError && error.status === 404) return undefined;
  throw error;
}

/**
 * Returns the response of a successful call, for callers that need its headers or read its stream.
 *
 * @throws CallError as {@link call}
 */
export async function send(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  const { body, ifMatch, ifNoneMatch, accept, signal: aborted } = options;
  const login = logins.value;
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, {
      method,
      headers: {
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(ifMatch !== undefined && { "if-match": ifMatch }),
        ...(ifNoneMatch !== undefined && { "if-none-match": ifNoneMatch }),
        ...(accept !== undefined && { accept }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(aborted !== undefined && { signal: aborted }),
      // The page has its own login; without this the browser would show its own dialog.
      credentials: "same-origin",
    });
  } catch (cause) {
    if (aborted?.aborted === true) throw cause;
    throw new CallError("the edge cannot be reached", { status: 0, cause });
  }
  // Sent before the login and refused after it: this must not ask for the key again.
  if (response.status === 401 && logins.value !== login) return await send(method, path, options);
  return await okResponse(response);
}

/** Returns the response if it is a success. @throws CallError with the API's message if it is an error */
export async function okResponse(response: Response): Promise<Response> {
  if (response.ok) return response;
  if (response.status === 401) isLoginAsked.value = true;
  const retryAfter = Number(response.headers.get("retry-after") ?? Number.NaN);
  throw new CallError(await words(response), {
    status: response.status,
    requestId: response.headers.get("x-request-id") ?? undefined,
    retryAfterMs: Number.isNaN(retryAfter) ? undefined : retryAfter * 1000,
  });
}

async function words(response: Response): Promise<string> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === "string") return error;
  } catch {
    // A proxy in front may answer in any format.
  }
  return `${response.status} ${response.statusText}`;
}
