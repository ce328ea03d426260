import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Log } from "../crds/log.ts";
import type { Handler } from "./handler.ts";
import { isJson } from "./is-json.ts";
import { NodeRequest } from "./node-request.ts";
import { createNodeSockets } from "./node-sockets.ts";
import type { RequestContext } from "./request-context.ts";
import type { Serve } from "./serve.ts";
import { serverUrl } from "./server-url.ts";
import { within } from "./within.ts";

/** The answer of a WebSocket's handshake, which is sent already. */
const SWITCHING_PROTOCOLS = 101;

/** Serves a handler with node:http; the request's `signal` tells when the client has gone. */
export const serveNode: Serve = async ({ handler, listen, log }) => {
  const inFlight = new Set<ServerResponse>();
  const sockets = createNodeSockets();
  let stopping = false;
  const server = createServer((incoming, outgoing) => {
    // Else a client that keeps its connection busy would hold the stop up.
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
    const response = await handler(request, upgrade === undefined ? {} : { upgrade });
    if (response.status !== SWITCHING_PROTOCOLS) await send(response, outgoing);
  } catch (error) {
    // Most often the client left in the middle of a stream. What was sent stays; the rest must not look complete.
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
  if (response.body === null) {
    outgoing.writeHead(response.status, headers).end();
  } else if (isJson(response.headers)) {
    const body = Buffer.from(await response.arrayBuffer());
    outgoing.writeHead(response.status, { ...headers, "content-length": body.byteLength }).end(body);
  } else {
    await stream(response.body, outgoing.writeHead(response.status, headers));
  }
}

/** Copies at the client's pace, and cancels the source when the client leaves. */
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
