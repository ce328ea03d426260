import { once } from "node:events";
import { createServer, type ServerResponse, STATUS_CODES } from "node:http";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import type { Log } from "../../crds/log.ts";
import { within } from "../../crds/waits.ts";
import type { Handler } from "../http/handler.ts";
import { JsonResponse } from "../http/json-response.ts";
import { isJson } from "../http/response.ts";
import type { RequestContext } from "../http/router.ts";
import { UPLOAD_LIMIT_MS } from "../http/upload.ts";
import { NodeRequest } from "./node-request.ts";
import { createNodeSockets } from "./node-sockets.ts";
import { type Serve, serverUrl } from "./serve.ts";

/** The response to a WebSocket handshake, which was already sent. */
const SWITCHING_PROTOCOLS = 101;

/** Serves a handler with node:http; the request's `signal` is aborted when the client disconnects. */
export const serveNode: Serve = async ({ handler, listen, log }) => {
  const inFlight = new Set<ServerResponse>();
  const sockets = createNodeSockets();
  let stopping = false;
  // Node's own limit on a whole request, 5 minutes, would interrupt a long upload; readers of bodies have their own
  // limit.
  const limits = { requestTimeout: UPLOAD_LIMIT_MS + 60_000, headersTimeout: 60_000 };
  const server = createServer(limits, (incoming, outgoing) => {
    // Otherwise a client that keeps its connection busy would delay the stop.
    if (stopping) outgoing.shouldKeepAlive = false;
    inFlight.add(outgoing);
    outgoing.once("close", () => inFlight.delete(outgoing));
    const request = new NodeRequest(incoming, outgoing) as unknown as Request;
    void answer(request, { handler, outgoing, log });
  });
  server.on("upgrade", (incoming, socket, head) => {
    sockets.take({ incoming, socket, head }, (outgoing, upgrade) => {
      inFlight.add(outgoing);
      socket.once("close", () => inFlight.delete(outgoing));
      const request = new NodeRequest(incoming, outgoing) as unknown as Request;
      void answer(request, { handler, outgoing, log, upgrade });
    });
  });
  server.on("connect", ({ method }, socket) => refuse(socket, 405, `${method} is not supported here`));
  server.on("clientError", (error: NodeJS.ErrnoException, socket) => {
    const [status, message] = unreadable[error.code ?? ""] ?? [400, "request: is not valid HTTP/1.1"];
    refuse(socket, status, message);
  });
  server.listen(listen.port, listen.hostname);
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    url: serverUrl(listen.hostname, port),
    async stop({ graceMs }) {
      stopping = true;
      for (const outgoing of inFlight) outgoing.shouldKeepAlive = false;
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeIdleConnections();
      const finished = await within(closed, graceMs);
      sockets.close();
      if (!finished) {
        server.closeAllConnections();
        await closed;
      }
      return finished;
    },
  };
};

/**
 * What Node's parser refuses, by its code; other errors are a 400 (https://nodejs.org/api/http.html#event-clienterror).
 */
const unreadable: Readonly<Record<string, readonly [status: number, message: string]>> = {
  HPE_INVALID_METHOD: [501, "this server does not know the request's method"],
  HPE_HEADER_OVERFLOW: [431, "the request's headers are too large"],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: [413, "the body's chunk extensions are too large"],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "the request did not arrive in time"],
};

/** Answers what never became a request, unless a response is already on its way. */
function refuse(socket: Duplex & { readonly _httpMessage?: unknown }, status: number, message: string): void {
  socket.on("error", () => socket.destroy());
  if (!socket.writable || socket._httpMessage) {
    socket.destroy();
    return;
  }
  const body = JSON.stringify({ error: message });
  const allow = status === 405 ? "allow: GET, HEAD, POST, PUT, DELETE\r\n" : "";
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${allow}connection: close\r\ncontent-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
  );
}

const plain: RequestContext = { peerOf: (request) => (request as unknown as NodeRequest).peer };

async function answer(
  request: Request,
  {
    handler,
    outgoing,
    log,
    upgrade,
  }: { handler: Handler; outgoing: ServerResponse; log: Log; upgrade?: RequestContext["upgrade"] },
): Promise<void> {
  try {
    const response = await handler(request, upgrade === undefined ? plain : { ...plain, upgrade });
    if (response.status !== SWITCHING_PROTOCOLS) await send(response, outgoing);
  } catch (error) {
    // Usually the client disconnected in the middle of a stream. What was sent stays; the rest must not look complete.
    log.debug({ error: String(error) }, "answer could not be sent");
    outgoing.destroy();
  }
}

async function send(response: Response, outgoing: ServerResponse): Promise<void> {
  const headers: Record<string, string | string[]> = {};
  for (const [name, value] of response.headers) {
    if (name !== "set-cookie") headers[name] = value;
  }
  const cookies = response.headers.getSetCookie();
  if (cookies.length > 0) headers["set-cookie"] = cookies;
  if (response instanceof JsonResponse) {
    const { status, content } = response;
    outgoing.writeHead(status, { ...headers, "content-length": Buffer.byteLength(content) }).end(content);
  } else if (response.body === null) {
    outgoing.writeHead(response.status, headers).end();
  } else if (isJson(response.headers)) {
    const body = Buffer.from(await response.arrayBuffer());
    outgoing.writeHead(response.status, { ...headers, "content-length": body.byteLength }).end(body);
  } else {
    await stream(response.body, outgoing.writeHead(response.status, headers));
  }
}

/** Copies at the client's pace, and cancels the source when the client disconnects. */
async function stream(body: ReadableStream<Uint8Array>, outgoing: ServerResponse): Promise<void> {
  const reader = body.getReader();
  const left = new AbortController();
  outgoing.once("close", () => {
    left.abort();
    void reader.cancel().catch(() => undefined);
  });
  outgoing.flushHeaders();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    if (!outgoing.write(value)) await once(outgoing, "drain", { signal: left.signal });
  }
  outgoing.end();
}
