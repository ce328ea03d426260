import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Log } from "../log.ts";
import { sleep } from "../waits.ts";
import { NetworkError } from "./api-error.ts";
import { leases, pods } from "./built-in-resources.ts";
import { type Clock, steadyClock, systemClock } from "./clock.ts";
import type { ClusterConfig, Credential } from "./config/cluster-config.ts";
import { createCredentials } from "./config/credentials.ts";
import { type Agents, createConnections } from "./connections.ts";
import { readBody, roundTrip } from "./round-trip.ts";
import { createServerTime } from "./server-time.ts";

export interface TransportRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path and query, below the path of the server's address. */
  readonly path: string;
  readonly body?: string | undefined;
  /** @default "application/json" */
  readonly contentType?: string | undefined;
  /** @default "application/json" */
  readonly accept?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds for all tries together; for a stream, until its head has arrived. @default 30000 */
  readonly timeoutMs?: number | undefined;
  /**
   * The verb for metrics, as the API server names it: `get`, `list`, `watch`, `create`, `update`, `patch`, `apply`,
   * `delete`.
   */
  readonly verb?: string | undefined;
  /**
   * The plural of the resource, for metrics. Calls for `leases`, and those that create `pods`, have separate
   * connections.
   */
  readonly resource?: string | undefined;
}

export interface TransportResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A stream that the caller reads or destroys, or the answer that refuses it. */
export type StreamAnswer =
  | { readonly kind: "stream"; readonly response: IncomingMessage }
  | { readonly kind: "refusal"; readonly answer: TransportResponse };

/**
 * One finished try. `status` is 0 without an answer; `bytes` is the size of the answer's body, 0 for a stream.
 */
export interface RequestRecord {
  readonly verb: string;
  readonly resource: string;
  readonly status: number;
  readonly durationMs: number;
  readonly bytes: number;
}

export interface TransportOptions {
  readonly config: ClusterConfig;
  /** Which program calls: the user agent is `tenancy-<role>/<version>`. @default "client" */
  readonly role?: string | undefined;
  /** @default "dev" */
  readonly version?: string | undefined;
  /** The most connections for calls; creations of pods, watches and Leases have separate ones. @default 16 */
  readonly maxSockets?: number | undefined;
  /** @default 30000 */
  readonly timeoutMs?: number | undefined;
  readonly onRequest?: ((record: RequestRecord) => void) | undefined;
  readonly log?: Log | undefined;
  readonly clock?: Clock | undefined;
}

export interface Transport {
  /** The API server's time in milliseconds since the epoch, to within a second. */
  now(): number;
  /**
   * Sends a request and returns the answer, with any status.
   *
   * @throws NetworkError if there was no answer
   */
  request(request: TransportRequest): Promise<TransportResponse>;
  /**
   * Sends a request on a connection for streams, and resolves as soon as the head of the answer has arrived.
   *
   * @throws NetworkError if there was no answer
   */
  stream(request: TransportRequest): Promise<StreamAnswer>;
  /** Closes idle connections, because the network has failed. */
  dropIdle(): void;
  /** Closes all connections; requests in flight fail. */
  close(): void;
}

/** How often a GET is repeated because the server had closed its connection. */
const maxStaleConnections = 3;
const maxThrottled = 5;

/** Keep-alive connections to one API server. Create it once; the whole process shares it. */
export function createTransport(options: TransportOptions): Transport {
  const { config, onRequest, log, clock = systemClock, maxSockets = 16 } = options;
  // A change of the system's clock must not extend the time limit of a fenced write.
  const steady = options.clock ?? steadyClock;
  const { secure, host, port, basePath } = parseServer(config.server);
  const userAgent = `tenancy-${options.role ?? "client"}/${options.version ?? "dev"}`;
  const credentials = createCredentials({ config, clock, log });
  const connections = createConnections({ config, secure, maxSockets });
  const usedSockets = new WeakSet<Socket>();
  const serverTime = createServerTime({ clock, steady });
  let closed = false;

  function headersOf(request: TransportRequest, credential: Credential): Record<string, string> {
    const headers: Record<string, string> = {
      accept: request.accept ?? "application/json",
      "user-agent": userAgent,
    };
    if (credential.authorization !== undefined) headers.authorization = credential.authorization;
    if (request.body !== undefined) {
      headers["content-type"] = request.contentType ?? "application/json";
      headers["content-length"] = String(Buffer.byteLength(request.body));
    }
    return headers;
  }

  function record(request: TransportRequest, startedAt: number, answer: { status: number; bytes: number }): void {
    const { verb = request.method.toLowerCase(), resource = "" } = request;
    onRequest?.({ verb, resource, durationMs: performance.now() - startedAt, ...answer });
  }

  async function attempt<R>(send: Send<R>, credential: Credential, timeoutMs: number): Promise<Answer<R>> {
    const { request, kind, read } = send;
    const { method, body, signal } = request;
    const agent = connections.agents(credential)[kind];
    const headers = headersOf(request, credential);
    const path = basePath + request.path;
    const startedAt = performance.now();
    const sentAt = steady.now();
    try {
      const sent = {
        ...{ secure, host, port, agent, method, path, headers, body },
        ...{ timeoutMs, signal, clock: steady, usedSockets },
      };
      const answer = await roundTrip(sent, async (head) => {
        serverTime.heard(head.headers.date, sentAt);
        return { head, content: await read(head) };
      });
      const bytes = Buffer.isBuffer(answer.content) ? answer.content.length : 0;
      record(request, startedAt, { status: answer.head.statusCode ?? 0, bytes });
      return answer;
    } catch (error) {
      record(request, startedAt, { status: 0, bytes: 0 });
      // A failure of one connection has often broken all of them, and each would cost a call its whole time limit.
      if (error instanceof NetworkError) connections.dropIdle();
      throw error;
    }
  }

  async function send<R>(sending: Send<R>): Promise<Answer<R>> {
    const { method, path, signal, timeoutMs = options.timeoutMs ?? 30_000 } = sending.request;
    const deadline = steady.now() + timeoutMs;
    let refusal: Answer<R> | undefined;
    let staleConnections = 0;
    let throttled = 0;
    let refused = false;
    for (;;) {
      if (closed)
        throw new NetworkError(`Cannot ${method} ${path}: the transport is closed`, { requestWasSent: false });
      const credential = await credentials.current();
      // Earlier steps may have taken too long, for example because this process was suspended.
      const leftMs = deadline - steady.now();
      if (leftMs <= 0) {
        if (refusal !== undefined) return refusal;
        throw new NetworkError(`Cannot ${method} ${path}: its time limit passed before it was sent`, {
          requestWasSent: false,
        });
      }
      let answer: Answer<R>;
      try {
        answer = await attempt(sending, credential, leftMs);
      } catch (error) {
        const retry = method === "GET" && error instanceof NetworkError && error.connectionWasStale;
        if (!retry || ++staleConnections > maxStaleConnections) throw error;
        continue;
      }
      const { statusCode } = answer.head;
      if (statusCode === 401 && !refused) {
        refused = true;
        refusal = answer;
        credentials.invalidate();
        if ((await credentials.current()) === credential) return answer;
      } else if (statusCode === 429 && throttled < maxThrottled) {
        throttled += 1;
        refusal = answer;
        const delayMs = retryAfter(answer.head.headers["retry-after"], { now: clock.now() });
        if (delayMs === undefined || steady.now() + delayMs >= deadline) return answer;
        await sleep(delayMs, { clock, signal });
      } else {
        return answer;
      }
    }
  }

  return {
    now: serverTime.now,
    async request(request) {
      const { head, content } = await send({ request, kind: kindOf(request), read: readBody });
      return { status: head.statusCode ?? 0, headers: head.headers, body: content };
    },
    async stream(request) {
      const { head, content } = await send({ request, kind: "watches", read: readRefusal });
      if (content === undefined) return { kind: "stream", response: head };
      return { kind: "refusal", answer: { status: head.statusCode ?? 0, headers: head.headers, body: content } };
    },
    dropIdle: connections.dropIdle,
    close() {
      closed = true;
      connections.close();
    },
  };
}

function kindOf({ verb, resource }: TransportRequest): keyof Agents {
  if (resource === leases.plural) return "leases";
  return verb === "create" && resource === pods.plural ? "podCreates" : "calls";
}

interface Send<R> {
  readonly request: TransportRequest;
  readonly kind: keyof Agents;
  readonly read: (head: IncomingMessage) => Promise<R>;
}

interface Answer<R> {
  readonly head: IncomingMessage;
  readonly content: R;
}

async function readRefusal(head: IncomingMessage): Promise<Buffer | undefined> {
  return head.statusCode === 200 ? undefined : await readBody(head);
}

function parseServer(server: string): { secure: boolean; host: string; port: number; basePath: string } {
  const url = URL.canParse(server) ? new URL(server) : undefined;
  if (url?.protocol !== "https:" && url?.protocol !== "http:")
    throw new TypeError(`Cannot connect to the API server "${server}": not an http or https URL`);
  const secure = url.protocol === "https:";
  return {
    secure,
    host: url.hostname.replace(/^\[|\]$/g, ""),
    port: url.port === "" ? (secure ? 443 : 80) : Number(url.port),
    basePath: url.pathname.replace(/\/+$/, ""),
  };
}

/**
 * The milliseconds to wait from a `retry-after` header, which has seconds or a date; undefined if it has none.
 */
export function retryAfter(header: string | undefined, options: { now: number }): number | undefined {
  if (header === undefined || header === "") return undefined;
  const seconds = Number(header);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
  const date = Date.parse(header);
  return Number.isNaN(date) ? undefined : Math.max(0, date - options.now);
}
