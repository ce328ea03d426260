import { signal } from "@preact/signals";

/** An answer that is no success, in the API's own words. */
export class CallError extends Error {
  /** 0 where the edge could not be reached. */
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

/** Whether an answer asked for the key: the login is shown over the page then. */
export const isLoginAsked = signal(false);

/** What a call may say beside its method and path. */
export interface CallOptions {
  readonly body?: unknown;
  /** The version that the object still has to have. */
  readonly ifMatch?: string;
  readonly signal?: AbortSignal;
}

/**
 * Calls the API; `path` is below `/api/v1`.
 *
 * @throws CallError where the answer is no success, or the edge cannot be reached
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

/** For `catch`: undefined where there is no such object; all else is thrown on. */
export function ifGone(error: unknown): undefined {
  if (error instanceof CallError && error.status === 404) return undefined;
  throw error;
}

/**
 * The response of a call that was a success, for whoever needs its headers or reads it as it comes.
 *
 * @throws CallError as {@link call}
 */
export async function send(method: string, path: string, options: CallOptions = {}): Promise<Response> {
  const { body, ifMatch, signal: aborted } = options;
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, {
      method,
      headers: {
        ...(body !== undefined && { "content-type": "application/json" }),
        ...(ifMatch !== undefined && { "if-match": ifMatch }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(aborted !== undefined && { signal: aborted }),
      // The login is a page's own business; a browser would ask by a dialog of its own else.
      credentials: "same-origin",
    });
  } catch (cause) {
    if (aborted?.aborted === true) throw cause;
    throw new CallError("the edge cannot be reached", { status: 0, cause });
  }
  return await okResponse(response);
}

/** The response where it is a success. @throws CallError in the API's words where it is none */
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
    // A proxy in front answers what it likes.
  }
  return `${response.status} ${response.statusText}`;
}
