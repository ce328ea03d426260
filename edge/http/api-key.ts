import { hash, timingSafeEqual } from "node:crypto";
import { offeredProtocols } from "./event-socket.ts";
import { HttpError } from "./http-error.ts";
import type { Sessions } from "./session.ts";

const BEARER = /^bearer +(\S+)$/i;
/** Of a proxy in front, whose password a browser then sends with every request. */
const BASIC = /^basic +\S+$/i;
const challenge = { headers: { "www-authenticate": 'Bearer realm="tenancy"' } };

/** Starts the subprotocol by which a WebSocket of a page, which can set no header, carries the key in base64url. */
export const KEY_PROTOCOL = "tenancy.bearer.";

/**
 * Returns a check that throws 401 unless the request carries `Authorization: Bearer <apiKey>`, or is a WebSocket's
 * handshake that offers the subprotocol `tenancy.bearer.<base64url of the key>`, or has neither and carries a session,
 * beside which `Authorization: Basic` means nothing.
 *
 * Digests are compared, so neither the place of the first difference nor the key's length shows in the time it takes.
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

/** Returns what tells whether a text is the key, in a time that does not depend on the text. */
export function createIsKey(apiKey: string): (text: string) => boolean {
  const expected = digest(apiKey);
  return (text) => timingSafeEqual(digest(text), expected);
}

/** Whether a request carries a key, be it right or wrong, beside which a session does not count. */
export function carriesKey(request: Request): boolean {
  const header = request.headers.get("authorization");
  return (header !== null && !BASIC.test(header)) || keyOffered(request) !== undefined;
}

function checkSession(request: Request, sessions: Pick<Sessions, "endOf"> | undefined): undefined | Promise<void> {
  // Programs, which send no cookies, get their answer without a wait.
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
