import {
  type EventSocket,
  IDLE_SECONDS,
  MAX_INCOMING_BYTES,
  MAX_WAITING_BYTES,
  type SocketListener,
} from "./events/event-socket.ts";
import { switchingProtocols } from "./events/switching-protocols.ts";
import { HttpError } from "./http-error.ts";
import { jsonResponse } from "./json-response.ts";
import type { Serve } from "./serve.ts";
import { serverUrl } from "./server-url.ts";
import { within } from "./within.ts";

interface DenoServer {
  readonly addr: { readonly port: number };
  shutdown(): Promise<void>;
}

interface DenoSocket extends EventTarget {
  readonly bufferedAmount: number;
  readonly readyState: number;
  send(text: string): void;
  close(code: number, reason: string): void;
}

declare const Deno: {
  upgradeWebSocket(request: Request, options: { idleTimeout: number }): { socket: DenoSocket; response: Response };
  serve(
    options: {
      hostname: string;
      port: number;
      onListen(): void;
      onError(error: unknown): Response;
    },
    handler: (request: Request) => Promise<Response>,
  ): DenoServer;
};

/**
 * Serves a handler with `Deno.serve`; `request.signal` tells when the client has gone.
 *
 * Run Deno with `--unstable-no-legacy-abort`, else it warns once that it aborts the signal of answered requests too, which does no harm.
 */
export const serveDeno: Serve = async ({ handler, listen, log }) => {
  // Deno cannot cut what a shutdown waits for, so what outlives the grace is answered instead.
  const giveUps = new Set<() => void>();
  const answer = (request: Request): Promise<Response> =>
    new Promise((resolve, reject) => {
      const giveUp = (): void => resolve(jsonResponse({ error: "the server stops; try again" }, { status: 503 }));
      giveUps.add(giveUp);
      let upgraded: Response | undefined;
      const upgrade = (listener: SocketListener): Response => {
        upgraded = accept(request, listener);
        return switchingProtocols();
      };
      handler(request, { upgrade })
        .then((response) => resolve(upgraded ?? response), reject)
        .finally(() => giveUps.delete(giveUp));
    });
  const server = Deno.serve(
    {
      hostname: listen.hostname,
      port: listen.port,
      // Deno prints the address unless told otherwise; the log has it.
      onListen: () => undefined,
      onError(error) {
        log.error({ error: String(error) }, "answer could not be sent");
        return jsonResponse({ error: "internal error" }, { status: 500 });
      },
    },
    answer,
  );
  return {
    url: serverUrl(listen.hostname, server.addr.port),
    async stop({ graceMs }) {
      const finished = await within(server.shutdown(), graceMs);
      for (const giveUp of giveUps) giveUp();
      return finished;
    },
  };
};

const OPEN = 1;

/** Answers a WebSocket's handshake. @throws HttpError 400 where Deno finds it not right */
function accept(request: Request, listener: SocketListener): Response {
  const { socket, response } = upgraded(request);
  // A peer that reads nothing reads no close either, so it is not waited for: Deno cuts it when it answers no ping.
  const event = eventSocket(socket, { onDrop: () => listener.onClose() });
  let isOpen = false;
  socket.addEventListener("open", () => {
    isOpen = true;
    listener.onOpen(event);
  });
  socket.addEventListener("message", ({ data }: Event & { data?: unknown }) => {
    if (typeof data !== "string" || data.length > MAX_INCOMING_BYTES) event.close(1009, "nothing is read here");
  });
  socket.addEventListener("close", () => {
    if (isOpen) listener.onClose();
  });
  // What is wrong with a connection closes it.
  socket.addEventListener("error", (failed) => failed.preventDefault());
  return response;
}

function upgraded(request: Request): { socket: DenoSocket; response: Response } {
  try {
    return Deno.upgradeWebSocket(request, { idleTimeout: IDLE_SECONDS });
  } catch (cause) {
    throw new HttpError(400, "the WebSocket handshake is not valid", { cause });
  }
}

function eventSocket(socket: DenoSocket, { onDrop }: { onDrop: () => void }): EventSocket {
  return {
    send(text) {
      if (socket.readyState !== OPEN) return;
      if (socket.bufferedAmount <= MAX_WAITING_BYTES) {
        socket.send(text);
        return;
      }
      socket.close(1013, "too slow");
      onDrop();
    },
    close(code, reason) {
      if (socket.readyState === OPEN) socket.close(code, reason);
    },
  };
}
