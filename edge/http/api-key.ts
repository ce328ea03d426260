import { hash, timingSafeEqual } from "node:crypto";
import { type Actor, type Caller, root, rootCaller } from "../access/actor.ts";
import type { Keys } from "../access/key-store.ts";
import type { Tokens } from "../access/tokens.ts";
import { type ClientAddress, createClientAddress } from "./client-address.ts";
import { offeredProtocols } from "./event-socket.ts";
import { HttpError } from "./http-error.ts";
import type { RequestContext } from "./router.ts";
import type { Sessions } from "./session.ts";

const BEARER = /^bearer +(\S+)$/i;
/** Credentials for a proxy in front, which a browser then sends with every request. */
const BASIC = /^basic +\S+$/i;
const challenge = { headers: { "www-authenticate": 'Bearer realm="tenancy"' } };

export const WRONG_KEY =
  "wrong API key: it is not the TENANCY_API_KEY of this server, and no other key that is valid now";

/** Prefix of the subprotocol by which a page's WebSocket, which cannot set headers, sends the key in base64url. */
export const KEY_PROTOCOL = "tenancy.bearer.";

/** What a check may find out about a request's connection. */
type Connection = Pick<RequestContext, "peerOf">;

/** Finds the actor of a key's text; undefined for a wrong key. */
export type FindActor = (text: string) => Actor | undefined;

/** Returns a function that finds the actor of TENANCY_API_KEY, and of the other keys if there are any. */
export function createFindActor(apiKey: string, keys?: Pick<Keys, "actorOf">): FindActor {
  const isRoot = createIsKey(apiKey);
  return (text) => (isRoot(text) ? root : keys?.actorOf(text));
}

/**
 * Returns a check that throws 401 unless the request has one of these: `Authorization: Bearer <key>`, the subprotocol
 * `tenancy.bearer.<base64url of the key>` of a WebSocket handshake, or, without either, a valid session.
 * `Authorization: Basic` beside a session is ignored. A token that others issue stands for a key; the client's address
 * limits how many unknown ones are checked for it.
 */
export function createApiKeyCheck(
  findActor: FindActor,
  sessions?: Pick<Sessions, "find">,
  tokens?: Pick<Tokens, "actorOf">,
  addressOf: ClientAddress = createClientAddress({ trusted: [] }),
): (request: Request, connection?: Connection) => Caller | Promise<Caller> {
  return (request, { peerOf } = {}) => {
    const header = request.headers.get("authorization");
    const from = () => addressOf(request, peerOf?.(request));
    if (header === null || (BASIC.test(header) && request.headers.has("cookie"))) {
      const offered = keyOffered(request);
      return offered === undefined ? callerOfSession(request, sessions) : callerOf(offered, from);
    }
    const presented = BEARER.exec(header)?.[1];
    if (presented === undefined) {
      throw new HttpError(401, "unreadable Authorization header: send Authorization: Bearer <key>", challenge);
    }
    return callerOf(presented, from);
  };

  function callerOf(text: string, from: () => string | undefined): Caller | Promise<Caller> {
    const actor = findActor(text) ?? tokens?.actorOf(text, from);
    if (actor === undefined) throw wrongKey();
    if (actor instanceof Promise) return actor.then((found) => ({ actor: found }));
    return actor === root ? rootCaller : { actor };
  }
}

/**
 * The `Authorization` for a key in `X-API-KEY`, as E2B's SDKs and other clients send one; undefined without it.
 *
 * @throws HttpError 401 if it is unreadable
 */
export function apiKeyAuthorization({ headers }: Pick<Request, "headers">): string | undefined {
  const key = headers.get("x-api-key");
  if (key === null) return undefined;
  if (!/^\S+$/.test(key)) throw new HttpError(401, "unreadable X-API-KEY header: send one key");
  return `Bearer ${key}`;
}

/** Returns a check that also takes a key in `X-API-KEY`, in place of `Authorization` and of a session. */
export function withApiKeyHeader<Caller>(authenticate: (request: Request, connection?: Connection) => Caller) {
  return (request: Request, { peerOf }: Connection = {}): Caller => {
    const authorization = apiKeyAuthorization(request);
    if (authorization === undefined) return authenticate(request, peerOf === undefined ? {} : { peerOf });
    // The client's address behind a trusted proxy is in it.
    const forwarded = request.headers.get("x-forwarded-for");
    const headers = { authorization, ...(forwarded !== null && { "x-forwarded-for": forwarded }) };
    const asked = new Request(request.url, { headers });
    return authenticate(asked, peerOf === undefined ? {} : { peerOf: () => peerOf(request) });
  };
}

/**
 * Returns a function that compares a text with TENANCY_API_KEY. It compares digests, so that timing reveals neither the
 * first difference nor the key's length.
 */
export function createIsKey(apiKey: string): (text: string) => boolean {
  const expected = digest(apiKey);
  return (text) => timingSafeEqual(digest(text), expected);
}

function callerOfSession(request: Request, sessions: Pick<Sessions, "find"> | undefined): Promise<Caller> {
  // Programs send no cookies and get their response without a wait.
  if (sessions === undefined || !request.headers.has("cookie")) throw missingKey();
  return sessions.find(request).then((caller) => {
    if (caller === undefined) throw missingKey();
    return caller;
  });
}

function missingKey(): HttpError {
  return new HttpError(401, "missing API key: send the header Authorization: Bearer <key>", challenge);
}

function wrongKey(): HttpError {
  return new HttpError(401, WRONG_KEY, challenge);
}

function keyOffered(request: Request): string | undefined {
  if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") return undefined;
  const word = offeredProtocols(request).find((one) => one.startsWith(KEY_PROTOCOL));
  return word && Buffer.from(word.slice(KEY_PROTOCOL.length), "base64url").toString("utf8");
}

function digest(value: string): Buffer {
  return hash("sha256", value, "buffer");
}
