import { within } from "../../crds/waits.ts";
import {
  type EventSocket,
  IDLE_SECONDS,
  MAX_BINARY_BYTES,
  receive,
  type SocketListener,
  selectProtocol,
  switchingProtocols,
  TOO_LARGE,
} from "../http/event-socket.ts";
import { HttpError } from "../http/http-error.ts";
import { jsonResponse } from "../http/response.ts";
import { type Serve, serverUrl } from "./serve.ts";

interface DenoServer {
  readonly addr: { readonly port: number };
  shutdown(): Promise<void>;
}

interface DenoInfo {
  readonly remoteAddr: { readonly hostname?: string };
}

interface DenoSocket extends EventTarget {
  readonly bufferedAmount: number;
  readonly readyState: number;
  binaryType: "arraybuffer" | "blob";
  send(message: string | Uint8Array): void;
  close(code: number, reason: string): void;
}

declare const Deno: {
  upgradeWebSocket(
    request: Request,
    options: { idleTimeout: number; protocol?: string },
  ): { socket: DenoSocket; response: Response };
  serve(
    options: {
      hostname: string;
      port: number;
      onListen(): void;
      onError(error: unknown): Response;
    },
    handler: (request: Request, info: DenoInfo) => Promise<Response>,
  ): DenoServer;
};

/**
 * Serves a handler with `Deno.serve`; `request.signal` is aborted when the client disconnects.
 *
 * Run Deno with `--unstable-no-legacy-abort`; otherwise it warns once that it also aborts the signal of answered
 * requests, which is harmless.
 */
export const serveDeno: Serve = async ({ handler, listen, log }) => {
  // Deno cannot abort the requests that a shutdown waits for, so those that exceed the grace period are answered.
  const giveUps = new Set<() => void>();
  const answer = (request: Request, info: DenoInfo): Promise<Response> =>
    new Promise((resolve, reject) => {
      const giveUp = (): void => resolve(jsonResponse({ error: "the server is stopping; try again" }, { status: 503 }));
      giveUps.add(giveUp);
      let upgraded: Response | undefined;
      const upgrade = (listener: SocketListener): Response => {
        upgraded = accept(request, listener);
        return switchingProtocols();
      };
      handler(request, { upgrade, peerOf: () => info.remoteAddr.hostname })
        .then((response) => resolve(upgraded ?? response), reject)
        .finally(() => giveUps.delete(giveUp));
    });
  const server = Deno.serve(
    {
      hostname: listen.hostname,
      port: listen.port,
      // Suppress Deno's own message; the log has the address.
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
const OPEN_LIMIT_MS = 5000;

/** Answers a WebSocket handshake. @throws HttpError 400 if Deno finds it invalid */
function accept(request: Request, listener: SocketListener): Response {
  const { socket, response } = upgraded(request, listener);
  socket.binaryType = "arraybuffer";
  const event = eventSocket(socket);
  // Deno reports neither if the client has left before it is answered.
  const neverOpened = setTimeout(() => {
    listener.onClose();
    socket.close(1001, "not opened in time");
  }, OPEN_LIMIT_MS);
  socket.addEventListener("open", () => {
    clearTimeout(neverOpened);
    listener.onOpen(event);
  });
  socket.addEventListener("message", ({ data }: Event & { data?: unknown }) => {
    const message = typeof data === "string" ? data : new Uint8Array(data as ArrayBuffer);
    if (message.length > MAX_BINARY_BYTES) event.close(TOO_LARGE, "too large");
    else receive(message, { listener, socket: event });
  });
  socket.addEventListener("close", () => listener.onClose());
  // An error of a connection closes it.
  socket.addEventListener("error", (failed) => failed.preventDefault());
  return response;
}

function upgraded(request: Request, listener: SocketListener): { socket: DenoSocket; response: Response } {
  try {
    const protocol = selectProtocol(request, listener.protocols);
    if (protocol === undefined) {
      return Deno.upgradeWebSocket(request, { idleTimeout: IDLE_SECONDS });
    }
    // Deno does not find it in a list without spaces.
    const headers = new Headers(request.headers);
    headers.set("sec-websocket-protocol", protocol);
    Object.defineProperty(request, "headers", { value: headers });
    return Deno.upgradeWebSocket(request, { idleTimeout: IDLE_SECONDS, protocol });
  } catch (cause) {
    throw new HttpError(400, "the WebSocket handshake is not valid", { cause });
  }
}

/** Maximum bytes of a client's messages that are handed to Deno before the client takes them. */
const WINDOW_BYTES = 16 * 1024;
/** Deno does not report when a client has taken data, so its buffer is checked repeatedly: soon if it did last time. */
const ASK_AGAIN_MS = { first: 10, last: 1000 };

/**
 * Buffers here what a client has not read, and hands Deno little at a time: Deno cannot close a connection abruptly,
 * and holds its buffer until the client disconnects.
 */
function eventSocket(socket: DenoSocket): EventSocket {
  let waiting: (string | Uint8Array)[] = [];
  let size = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let delayMs = ASK_AGAIN_MS.first;
  /** Deno no longer reports on a socket that it was asked to close. */
  let heldAtEnd = 0;

  function pass(): void {
    timer = undefined;
    const before = waiting.length;
    while (waiting.length > 0 && socket.readyState === OPEN && socket.bufferedAmount < WINDOW_BYTES) {
      const message = waiting.shift() ?? "";
      size -= message.length;
      socket.send(message);
    }
    if (socket.readyState !== OPEN) forget();
    if (waiting.length === 0) return;
    delayMs = waiting.length < before ? ASK_AGAIN_MS.first : Math.min(delayMs * 2, ASK_AGAIN_MS.last);
    timer = setTimeout(pass, delayMs);
  }

  function forget(): void {
    clearTimeout(timer);
    waiting = [];
    size = 0;
  }

  function end(code: number, reason: string): void {
    forget();
    if (socket.readyState !== OPEN) return;
    heldAtEnd = socket.bufferedAmount;
    socket.close(code, reason);
  }

  return {
    send(message) {
      waiting.push(message);
      size += message.length;
      if (timer === undefined) pass();
    },
    get waitingBytes() {
      return size + (socket.readyState === OPEN ? socket.bufferedAmount : heldAtEnd);
    },
    cut: () => end(1013, "too slow"),
    close: end,
  };
}
