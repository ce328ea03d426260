import { createHash, timingSafeEqual } from "node:crypto";
import { offeredProtocols } from "./event-socket.ts";
import { HttpError } from "./http-error.ts";

const BEARER = /^bearer +(\S+)$/i;
const challenge = { headers: { "www-authenticate": 'Bearer realm="tenancy"' } };

/** Starts the subprotocol by which a WebSocket of a page, which can set no header, carries the key in base64url. */
export const KEY_PROTOCOL = "tenancy.bearer.";

/**
 * Returns a check that throws 401 unless the request carries `Authorization: Bearer <apiKey>`, or is a WebSocket's
 * handshake that offers the subprotocol `tenancy.bearer.<base64url of the key>`.
 *
 * Digests are compared, so neither the place of the first difference nor the key's length shows in the time it takes.
 */
export function createApiKeyCheck(apiKey: string): (request: Request) => void {
  const expected = digest(apiKey);
  return (request) => {
    const header = request.headers.get("authorization");
    if (header === null) {
      const offered = keyOffered(request);
      if (offered !== undefined && timingSafeEqual(digest(offered), expected)) return;
      if (offered !== undefined) throw wrongKey();
      throw new HttpError(401, "missing API key: send the header Authorization: Bearer <TENANCY_API_KEY>", challenge);
    }
    const presented = BEARER.exec(header)?.[1];
    if (presented === undefined) {
      throw new HttpError(
        401,
        "unreadable Authorization header: send Authorization: Bearer <TENANCY_API_KEY>",
        challenge,
      );
    }
    if (!timingSafeEqual(digest(presented), expected)) throw wrongKey();
  };
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
  return createHash("sha256").update(value).digest();
}
