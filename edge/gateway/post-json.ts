import { Agent, type IncomingHttpHeaders } from "node:http";
import { Agent as SecureAgent } from "node:https";
import type { Socket } from "node:net";
import type { Clock } from "../../crds/client/clock.ts";
import { readBody, roundTrip } from "../../crds/client/round-trip.ts";

/** A POST of JSON. */
export interface JsonPost {
  /** Of `http:` or `https:`. */
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  /** A JSON text. */
  readonly body: string;
  readonly maxReplyBytes: number;
  /** Throws on a status whose body must not be read. */
  readonly checkStatus: (status: number) => void;
  /** Also the only time limit. */
  readonly signal: AbortSignal;
}

export interface JsonPostReply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Uint8Array;
}

/** The maximum delay of a timer. */
const NEVER_MS = 2 ** 31 - 1;

/**
 * Sends a request. Redirects are not followed, bodies not decompressed.
 *
 * @throws NetworkError if there was no response, or a refused one
 * @throws the signal's reason when it is aborted
 */
export type Post = (request: JsonPost) => Promise<JsonPostReply>;

/**
 * Makes a {@link Post}.
 *
 * @param options.keepAliveMs how long an idle connection is kept for the next request; not kept if absent
 */
export function createPoster(options: { clock: Clock; keepAliveMs?: number }): Post {
  const { clock, keepAliveMs } = options;
  const settings =
    keepAliveMs === undefined ? { keepAlive: false } : { keepAlive: true, timeout: keepAliveMs, noDelay: true };
  const agents = { "http:": new Agent(settings), "https:": new SecureAgent(settings) };
  const usedSockets = new WeakSet<Socket>();

  return ({ url, headers, body, maxReplyBytes, checkStatus, signal }) => {
    const secure = url.protocol === "https:";
    return roundTrip(
      {
        secure,
        host: hostName(url),
        port: url.port === "" ? (secure ? 443 : 80) : Number(url.port),
        agent: agents[secure ? "https:" : "http:"],
        method: "POST",
        path: url.pathname + url.search,
        headers: {
          ...lowerCaseNames(headers ?? {}),
          accept: "application/json, */*",
          "accept-encoding": "identity",
          "content-type": "application/json",
          "content-length": String(Buffer.byteLength(body)),
        },
        body,
        timeoutMs: NEVER_MS,
        signal,
        clock,
        usedSockets,
      },
      async (response) => {
        const status = response.statusCode ?? 0;
        checkStatus(status);
        const encoding = response.headers["content-encoding"] ?? "identity";
        if (encoding.toLowerCase() !== "identity") throw new Error(`its answer is encoded: ${encoding.slice(0, 80)}`);
        return { status, headers: response.headers, body: await readBody(response, maxReplyBytes) };
      },
    );
  };
}

/** A URL's host as sockets need it: an IPv6 address without brackets. */
export function hostName({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, "$1");
}

function lowerCaseNames(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
