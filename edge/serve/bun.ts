import { within } from "../../crds/waits.ts";
import {
  type EventSocket,
  IDLE_SECONDS,
  MAX_BINARY_BYTES,
  MAX_WAITING_BYTES,
  receive,
  type SocketListener,
  selectProtocol,
  switchingProtocols,
} from "../http/event-socket.ts";
import { HttpError } from "../http/http-error.ts";
import { jsonResponse } from "../http/response.ts";
import { type Serve, serverUrl } from "./serve.ts";

/** A claim call is silent for 30 s, and a stream's keep-alive must fit in between. */
const SILENT_SECONDS = 120;

/**
 * Serves a handler with `Bun.serve`; `request.signal` is aborted when the client disconnects. WebSockets broadcast
 * natively.
 */
export const serveBun: Serve = async ({ handler, listen, log }) => {
  const peerOf = (request: Request): string | undefined => server.requestIP(request)?.address;
  const server = Bun.serve<SocketListener>({
    hostname: listen.hostname,
    port: listen.port,
    idleTimeout: SILENT_SECONDS,
    // The handler refuses large bodies itself, with a message; Bun's own 413 has no body.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    // Outside development mode, Bun would allow two servers to share a port without an error.
    reusePort: false,
    async fetch(request, bun) {
      let isSocket = false;
      const response = await handler(request, {
        mayBeSilent: () => bun.timeout(request, 0),
        // https://github.com/oven-sh/bun/pull/33660
        headWaits: true,
        peerOf,
        upgrade(listener) {
          // Bun would select the first offer, which may contain the key.
          const selected = selectProtocol(request, listener.protocols);
          const headers = selected === undefined ? {} : { "sec-websocket-protocol": selected };
          if (!bun.upgrade(request, { data: listener, headers }))
            throw new HttpError(400, "the WebSocket handshake is not valid");
          isSocket = true;
          return switchingProtocols();
        },
      });
      return isSocket ? undefined : response;
    },
    error(error) {
      log.error({ error: error.message }, "answer could not be sent");
      return jsonResponse({ error: "internal error" }, { status: 500 });
    },
    websocket: {
      idleTimeout: IDLE_SECONDS,
      maxPayloadLength: MAX_BINARY_BYTES,
      backpressureLimit: MAX_WAITING_BYTES,
      closeOnBackpressureLimit: true,
      open: (socket) => socket.data.onOpen(eventSocket(socket)),
      message(socket, data) {
        receive(data, { listener: socket.data, socket: eventSocket(socket) });
      },
      close: (socket) => socket.data.onClose(),
    },
  });

  function eventSocket(socket: Bun.ServerWebSocket<SocketListener>): EventSocket {
    return {
      send: (message) => void socket.send(message),
      get waitingBytes() {
        return socket.getBufferedAmount();
      },
      cut: () => socket.terminate(),
      fanOut: {
        subscribe: (topic) => socket.subscribe(topic),
        publish: (topic, text) => void server.publish(topic, text),
      },
      close: (code, reason) => socket.close(code, reason),
    };
  }

  return {
    url: serverUrl(listen.hostname, server.port ?? listen.port),
    async stop({ graceMs }) {
      const finished = await within(server.stop(false), graceMs);
      if (!finished) await server.stop(true);
      return finished;
    },
  };
};
