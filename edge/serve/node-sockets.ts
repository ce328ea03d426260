import { type IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { type WebSocket, WebSocketServer } from "ws";
import {
  type EventSocket,
  IDLE_SECONDS,
  MAX_BINARY_BYTES,
  receive,
  type SocketListener,
  selectProtocol,
  switchingProtocols,
} from "../http/event-socket.ts";

/** WebSockets of a node:http server. */
export interface NodeSockets {
  /**
   * Takes over an upgrade request.
   *
   * @param answer answers it like any other request, or calls `upgrade` with its listener
   */
  take(
    wire: { incoming: IncomingMessage; socket: Duplex; head: Buffer },
    answer: (outgoing: ServerResponse, upgrade: (listener: SocketListener) => Response) => void,
  ): void;
  /** Closes every socket, and stops the pings. */
  close(): void;
}

/** Makes the server side of `ws`: without compression, and with a ping that detects lost clients. */
export function createNodeSockets(): NodeSockets {
  const server = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: MAX_BINARY_BYTES,
    handleProtocols: (_, incoming) => selected.get(incoming) ?? false,
  });
  /** The subprotocol of a handshake that is being answered. */
  const selected = new WeakMap<IncomingMessage, string>();
  const silent = new WeakSet<WebSocket>();
  const pings = setInterval(
    () => {
      for (const socket of server.clients) {
        if (silent.has(socket)) socket.terminate();
        silent.add(socket);
        socket.ping();
      }
    },
    (IDLE_SECONDS * 1000) / 2,
  );
  pings.unref();

  function accept(socket: WebSocket, listener: SocketListener): void {
    socket.on("pong", () => silent.delete(socket));
    // An error of a connection ends it, which `close` reports.
    socket.on("error", () => socket.terminate());
    socket.on("close", () => listener.onClose());
    const event = eventSocket(socket);
    socket.on("message", (data: Buffer, isBinary) => {
      receive(isBinary ? data : data.toString("utf8"), { listener, socket: event });
    });
    listener.onOpen(event);
  }

  return {
    take({ incoming, socket, head }, answer) {
      const outgoing = new ServerResponse(incoming);
      outgoing.shouldKeepAlive = false;
      // An error here affects only the client.
      socket.on("error", () => socket.destroy());
      outgoing.assignSocket(socket as Parameters<ServerResponse["assignSocket"]>[0]);
      outgoing.once("finish", () => socket.end());
      answer(outgoing, (listener) => {
        outgoing.detachSocket(socket as Parameters<ServerResponse["detachSocket"]>[0]);
        const protocol = selectProtocol(
          { headers: new Headers({ "sec-websocket-protocol": incoming.headers["sec-websocket-protocol"] ?? "" }) },
          listener.protocols,
        );
        if (protocol !== undefined) selected.set(incoming, protocol);
        let isAccepted = false;
        server.handleUpgrade(incoming, socket, head, (accepted) => {
          isAccepted = true;
          accept(accepted, listener);
        });
        // Its client has left before the handshake was over.
        if (!isAccepted) listener.onClose();
        return switchingProtocols();
      });
    },
    close() {
      clearInterval(pings);
      for (const socket of server.clients) socket.terminate();
    },
  };
}

function eventSocket(socket: WebSocket): EventSocket {
  return {
    send: (message) => socket.send(message),
    get waitingBytes() {
      return socket.bufferedAmount;
    },
    cut: () => socket.terminate(),
    close: (code, reason) => socket.close(code, reason),
  };
}
