import { hash, timingSafeEqual } from "node:crypto";
import { offeredProtocols } from "./event-socket.ts";
import { HttpError } from "./http-error.ts";
import type { Sessions } from "./session.ts";

const BEARER = /^bearer +(\S+)$/i;
/** Credentials for a proxy in front, which a browser then sends with every request. */
const BASIC = /^basic +\S+$/i;
const challenge = { headers: { "www-authenticate": 'Bearer realm="tenancy"' } };

/** Prefix of the subprotocol by which a page's WebSocket, which cannot set headers, sends the key in base64url. */
export const KEY_PROTOCOL = "tenancy.bearer.";

/**
 * Returns a check that throws 401 unless the request has one of these: `Authorization: Bearer <apiKey>`, the
 * subprotocol `tenancy.bearer.<base64url of the key>` of a WebSocket handshake, or, without either, a valid session.
 * `Authorization: Basic` beside a session is ignored.
 *
 * Digests are compared, so that timing does not reveal the first difference or the key's length.
 */
export function createApiKeyCheck(
  apiKey: string,
  sessions?: Pick<Sessions, "endOf">,
): (request: Request) => void | Promise<void> {
  const isKey = createIsKey(apiKey);
  return (request) => {
    const header = request.headers.get("authorization");
    if (header === null || (BASIC.test(header) && request.headers.has("cookie"))) {
      const offered = keyOffered(request);
      if (offered === undefined) return checkSession(request, sessions);
      if (isKey(offered)) return;
      throw wrongKey();
    }
    const presented = BEARER.exec(header)?.[1];
    if (presented === undefined) {
      throw new HttpError(
        401,
        "unreadable Authorization header: send Authorization: Bearer <TENANCY_API_KEY>",
        challenge,
      );
    }
    if (!isKey(presented)) throw wrongKey();
  };
}

/** Returns a function that compares a text with the key in constant time. */
export function createIsKey(apiKey: string): (text: string) => boolean {
  const expected = digest(apiKey);
  return (text) => timingSafeEqual(digest(text), expected);
}

/** Whether a request has a key, right or wrong; a session does not count then. */
export function carriesKey(request: Request): boolean {
  const header = request.headers.get("authorization");
  return (header !== null && !BASIC.test(header)) || keyOffered(request) !== undefined;
}

function checkSession(request: Request, sessions: Pick<Sessions, "endOf"> | undefined): undefined | Promise<void> {
  // Programs send no cookies and get their response without a wait.
  if (sessions === undefined || !request.headers.has("cookie")) throw missingKey();
  return sessions.endOf(request).then((expiresAt) => {
    if (expiresAt === undefined) throw missingKey();
  });
}

function missingKey(): HttpError {
  return new HttpError(401, "missing API key: send the header Authorization: Bearer <TENANCY_API_KEY>", challenge);
}

function wrongKey(): HttpError {
  return new HttpError(401, "wrong API key: it is not the TENANCY_API_KEY of this server", challenge);
}

function keyOffered(request: Request): string | undefined {
  if (request.headers.get("upgrade")?.toLowerCase() !== "websocket") return undefined;
  const word = offeredProtocols(request).find((one) => one.startsWith(KEY_PROTOCOL));
  return word && Buffer.from(word.slice(KEY_PROTOCOL.length), "base64url").toString("utf8");
}

function digest(value: string): Buffer {
  return hash("sha256", value, "buffer");
}
