import type { Operations, RawBody } from "./operations.ts";

/** An answer of the API that is an error, or none at all. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** The HTTP status; 0 if the API could not be reached, or the connection was lost. */
  readonly status: number;
  /** The `x-request-id` of the answer, under which the API's log has more. */
  readonly requestId: string | undefined;
  /** Seconds to wait before another try, if the answer names them. */
  readonly retryAfter: number | undefined;

  /** @param message the API's own, which says what to change */
  constructor(
    message: string,
    options: { status: number; requestId?: string | undefined; retryAfter?: number | undefined; cause?: unknown },
  ) {
    super(message, { cause: options.cause });
    this.status = options.status;
    this.requestId = options.requestId;
    this.retryAfter = options.retryAfter;
  }
}

/** A call by method and path, such as `GET /api/v1/claims`. */
export type OperationName = keyof Operations;

/** What an operation takes: `path`, `query`, `headers`, `body` and `contentType`, as far as it has them. */
export type CallOptions<Name extends OperationName> = Omit<Operations[Name], "answer"> & {
  /** Ends the call, also while it waits before another try. */
  readonly signal?: AbortSignal | undefined;
  /** The media type to ask for, where an operation has several. */
  readonly accept?: string | undefined;
};

type NeedsOptions<Name extends OperationName> = object extends CallOptions<Name> ? false : true;
/** The last argument of a call, which is optional if the operation needs nothing. */
export type CallArguments<Name extends OperationName> =
  NeedsOptions<Name> extends true ? [options: CallOptions<Name>] : [options?: CallOptions<Name>];

/** Operations whose answer is a list. */
export type ListName = {
  [Name in OperationName]: Operations[Name]["answer"] extends unknown[] ? Name : never;
}[OperationName];

export interface Calls {
  /**
   * Makes a call and returns its answer: parsed JSON, a text, or else the `Response` with its body unread.
   *
   * ```ts
   * const claims = await client.call("GET /api/v1/claims", { query: { phase: "Active", limit: 10 } });
   * ```
   *
   * @throws ApiError for an error of the API; the signal's reason
   */
  call<Name extends OperationName>(name: Name, ...rest: CallArguments<Name>): Promise<Operations[Name]["answer"]>;
  /** As {@link Calls.call}, but returns the successful `Response` with its body unread: for headers and streams. */
  send<Name extends OperationName>(name: Name, ...rest: CallArguments<Name>): Promise<Response>;
  /** All items of a list, page by page as they are consumed. `limit` of the query is the size of a page. */
  all<Name extends ListName>(
    name: Name,
    ...rest: CallArguments<Name>
  ): AsyncGenerator<Operations[Name]["answer"][number], void>;
}

export interface CallSettings {
  /** Such as `https://tenancy.example.com`, with or without a slash or `/api/v1` at its end. */
  readonly url: string;
  /** The API key or token; a function is asked before each try. */
  readonly key?: string | (() => string | Promise<string>) | undefined;
  /** @default the runtime's */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined;
  /** Ends every call. */
  readonly signal?: AbortSignal | undefined;
  /** How often a call is tried again. @default 4 */
  readonly retries?: number | undefined;
}

/** What any operation takes. */
export interface LooseOptions {
  readonly path?: Readonly<Record<string, string | number>>;
  readonly query?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly accept?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Longest wait before another try; an answer that names a longer one is thrown. */
const LONGEST_WAIT_MS = 30_000;
const FIRST_WAIT_MS = 250;
const JSON_TYPE = "application/json";

/** The server's address without what is below it. @throws TypeError if it is none */
export function originOf(url: string): string {
  const { protocol } = new URL(url);
  if (protocol !== "http:" && protocol !== "https:")
    throw new TypeError(`Cannot use the url ${JSON.stringify(url)}: it must begin with http:// or https://`);
  return url.replace(/\/+$/, "").replace(/\/api\/v1$/, "");
}

/** {@link Calls} for functions that put the name of an operation together. */
export interface LooseCalls {
  call(name: string, options?: LooseOptions): Promise<unknown>;
  send(name: string, options?: LooseOptions): Promise<Response>;
  all(name: string, options?: LooseOptions): AsyncGenerator<unknown, void>;
}

export function createCalls(settings: CallSettings): Calls & LooseCalls {
  const origin = originOf(settings.url);
  const { retries = 4 } = settings;
  const ask = settings.fetch ?? globalThis.fetch.bind(globalThis);

  async function send(name: string, options: LooseOptions = {}): Promise<Response> {
    const [method = "", pattern = ""] = name.split(" ");
    const url = `${origin}${pathOf(pattern, options.path)}${queryOf(options.query)}`;
    const { body, type } = bodyOf(options);
    const signal = eitherSignal(settings.signal, options.signal);
    const isReadOnly = method === "GET" && options.query?.wake !== true;
    for (let tries = 0; ; tries += 1) {
      signal?.throwIfAborted();
      const key = typeof settings.key === "function" ? await settings.key() : settings.key;
      const headers = new Headers();
      for (const [header, value] of Object.entries(options.headers ?? {}))
        if (value !== undefined) headers.set(header, value);
      if (type !== undefined) headers.set("content-type", type);
      if (options.accept !== undefined) headers.set("accept", options.accept);
      if (key !== undefined) headers.set("authorization", `Bearer ${key}`);
      const failure = await attempt(url, { method, headers, body, signal });
      if (!(failure instanceof ApiError)) return failure;
      const isLast = tries >= retries || isStream(body) || !mayTryAgain(failure, { isReadOnly });
      const waitMs = failure.retryAfter === undefined ? FIRST_WAIT_MS * 2 ** tries : failure.retryAfter * 1000;
      if (isLast || waitMs > LONGEST_WAIT_MS) throw failure;
      // Callers that were refused together do not come back together.
      await pause(waitMs * (1 + Math.random() / 4), signal);
    }
  }

  async function attempt(
    url: string,
    init: { method: string; headers: Headers; body: RawBody | undefined; signal: AbortSignal | undefined },
  ): Promise<Response | ApiError> {
    const { method, headers, body, signal } = init;
    try {
      const response = await ask(url, {
        // Else the body, with its secrets, would go to wherever an answer says.
        ...{ method, headers, redirect: "manual" },
        ...(body !== undefined && { body: body as string }),
        // Node and browsers demand it for streams.
        ...(isStream(body) && { duplex: "half" }),
        ...(signal !== undefined && { signal }),
      });
      if (response.ok || response.status === 304) return response;
      return await errorOf(response);
    } catch (cause) {
      if (signal?.aborted === true) throw signal.reason;
      return new ApiError(`${origin} cannot be reached: ${reasonOf(cause)}`, { status: 0, cause });
    }
  }

  async function call(name: string, options?: LooseOptions): Promise<unknown> {
    const response = await send(name, options);
    const type = response.headers.get("content-type") ?? "";
    try {
      if (type.startsWith(JSON_TYPE)) return await response.json();
      if (type.startsWith("text/plain")) return await response.text();
      return response;
    } catch (cause) {
      (options?.signal ?? settings.signal)?.throwIfAborted();
      throw new ApiError(`the answer to ${name} broke off: ${reasonOf(cause)}`, { status: 0, cause });
    }
  }

  async function* all(name: string, options: LooseOptions = {}): AsyncGenerator<unknown, void> {
    let after: string | undefined;
    do {
      const query = after === undefined ? options.query : { ...options.query, after };
      const response = await send(name, { ...options, ...(query !== undefined && { query }) });
      yield* (await response.json()) as unknown[];
      after = response.headers.get("x-tenancy-next") ?? undefined;
    } while (after !== undefined);
  }

  return { call, send, all } as Calls & LooseCalls;
}

/**
 * Whether another try cannot do something twice. 429 promises that nothing was begun. A 503 promises it only by being
 * the answer of a read, as does a connection that was lost.
 * docs/decisions/edge-http.md#the-client-tries-only-reads-again-and-what-got-429
 */
function mayTryAgain({ status, retryAfter }: ApiError, { isReadOnly }: { isReadOnly: boolean }): boolean {
  if (status === 429) return retryAfter !== undefined;
  return isReadOnly && (status === 0 || (status === 503 && retryAfter !== undefined));
}

/** Whether another try later cannot help: the request itself is refused. */
export function isFinal(error: unknown): boolean {
  return !(error instanceof ApiError) || (error.status >= 300 && error.status < 500 && error.status !== 429);
}

function isRedirect({ status, type }: Response): boolean {
  return (status >= 300 && status < 400) || type === "opaqueredirect";
}

/** The origin of a Location; "" if there is none. */
function originNamed(location: string | null, base: string): string {
  try {
    return location === null ? "" : new URL(location, base || undefined).origin;
  } catch {
    return "";
  }
}

async function errorOf(response: Response): Promise<ApiError> {
  const { status, statusText, headers } = response;
  if (isRedirect(response)) {
    await response.body?.cancel().catch(() => undefined);
    const target = originNamed(headers.get("location"), response.url);
    const message = `the API redirects${target && ` to ${target}`}, which is not followed; use the API's own address as url`;
    // Browsers hide the status.
    return new ApiError(message, { status: status || 302 });
  }
  const text = await response.text().catch(() => "");
  let message = `${status} ${statusText}`.trim();
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === "string") message = error;
  } catch {
    // A proxy in front answers as it likes.
  }
  const seconds = /^\d+$/.exec(headers.get("retry-after") ?? "")?.[0];
  const requestId = headers.get("x-request-id") ?? undefined;
  return new ApiError(message, { status, requestId, retryAfter: seconds === undefined ? undefined : Number(seconds) });
}

/** The message of a failure of `fetch`, which hides its reason in the cause. */
export function reasonOf(error: unknown): string {
  const { cause, message } = error as { cause?: { message?: string }; message?: string };
  return cause?.message || message || String(error);
}

function bodyOf({ body, contentType }: LooseOptions): { body: RawBody | undefined; type: string | undefined } {
  if (body === undefined) return { body: undefined, type: undefined };
  const isRaw = typeof body === "string" || body instanceof Uint8Array || body instanceof Blob || isStream(body);
  if (isRaw) return { body: body as RawBody, type: contentType ?? "application/octet-stream" };
  return { body: JSON.stringify(body), type: JSON_TYPE };
}

function isStream(body: unknown): body is ReadableStream<Uint8Array> {
  return body instanceof ReadableStream;
}

/**
 * A pattern with its parameters in place. `path` itself, of a file, is encoded already.
 *
 * @throws TypeError for a segment that a URL does not hold as it is: it would name another route
 */
export function pathOf(pattern: string, parameters: LooseOptions["path"] = {}): string {
  return pattern.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = String(parameters[name] ?? "");
    const isPath = pattern.endsWith(`/files/{${name}}`);
    for (const segment of isPath ? value.split("/") : [value]) {
      if (/^(?:\.|%2e){0,2}$/i.test(segment))
        throw new TypeError(`Cannot use ${JSON.stringify(value)} as ${name}: "", "." and ".." are no names`);
    }
    return isPath ? value : encodeURIComponent(value);
  });
}

export function queryOf(query: Readonly<Record<string, unknown>> = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, String(value));
  return parameters.size === 0 ? "" : `?${parameters}`;
}

/** A signal that is aborted with the first of them. */
export function eitherSignal(one: AbortSignal | undefined, other: AbortSignal | undefined): AbortSignal | undefined {
  if (one === undefined || other === undefined || one === other) return one ?? other;
  return AbortSignal.any([one, other]);
}

/** Waits so long. @throws the signal's reason */
export function pause(ms: number, signal?: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    if (signal?.aborted === true) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}
