import { KEY_PROTOCOL } from "./api-key.ts";
import { offeredProtocols } from "./event-socket.ts";
import { HttpError } from "./http-error.ts";
import type { RequestContext } from "./router.ts";

const KEY = /^[+/0-9A-Za-z]{22}==$/;

/**
 * Checks the handshake of a WebSocket.
 *
 * @param options.protocols the subprotocols of which the server selects one
 * @returns how to answer it
 * @throws HttpError 426 or 400 if it is none
 */
export function requireHandshake(
  request: Request,
  { upgrade, protocols }: { upgrade: RequestContext["upgrade"] | undefined; protocols: readonly string[] },
): NonNullable<RequestContext["upgrade"]> {
  const { headers } = request;
  if (headers.get("upgrade")?.toLowerCase() !== "websocket" || upgrade === undefined) {
    throw new HttpError(426, "this is a WebSocket: connect to it with a ws:// address", {
      headers: { upgrade: "websocket", connection: "Upgrade" },
    });
  }
  if (headers.get("sec-websocket-version") !== "13") {
    throw new HttpError(426, "sec-websocket-version: must be 13", { headers: { "sec-websocket-version": "13" } });
  }
  if (!KEY.test(headers.get("sec-websocket-key") ?? "")) {
    throw new HttpError(400, "sec-websocket-key: must be 16 bytes in base64");
  }
  const offered = offeredProtocols(request);
  if (offered.some((word) => word.startsWith(KEY_PROTOCOL)) && !offered.some((word) => protocols.includes(word))) {
    throw new HttpError(400, `sec-websocket-protocol: also offer ${protocols[0]}, which the server selects`);
  }
  return upgrade;
}
