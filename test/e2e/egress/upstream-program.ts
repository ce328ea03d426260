// All servers of the world: DNS on the resolver's address, and HTTPS, WebSocket and plain HTTP on every address.
import { createHash } from "node:crypto";
import { createSocket } from "node:dgram";
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import { createSecureContext, TLSSocket } from "node:tls";
import { WebSocketServer } from "ws";
import { dnsAnswer } from "./dns-answer.ts";
import type { SeenRequest, UpstreamSettings } from "./messages.ts";

process.once("message", (message: UpstreamSettings) => {
  void serve(message).then(() => process.send?.("ready"));
});

// The answer to a query, so that a change is in force when it is acknowledged.
const records = new Map<string, readonly string[]>();
/** Lets the stream go on that is under way. */
let onArrival = (): void => undefined;
let isStreaming = false;

async function serve(settings: UpstreamSettings): Promise<void> {
  for (const [name, addresses] of Object.entries(settings.records)) records.set(name, addresses);
  process.on("message", (changed: Record<string, string[]>) => {
    for (const [name, addresses] of Object.entries(changed)) records.set(name, addresses);
    process.send?.("changed");
  });
  await Promise.all([
    ...settings.resolvers.map(serveNames),
    serveHttps(settings),
    new Promise<void>((resolve) => {
      createHttpServer((_, response) => response.end("plain")).listen(80, settings.host, resolve);
    }),
  ]);
}

function serveNames(on: string): Promise<void> {
  const socket = createSocket("udp4");
  socket.on("message", (query, from) => {
    socket.send(dnsAnswer(query, records), from.port, from.address);
  });
  return new Promise((resolve) => socket.bind(53, on, resolve));
}

function serveHttps({ certificates, host }: UpstreamSettings): Promise<void> {
  const contexts = new Map(
    Object.entries(certificates).map(([name, { certificate, key }]) => [
      name,
      createSecureContext({ cert: certificate, key }),
    ]),
  );
  const server = createSecureServer(
    {
      allowHTTP1: true,
      SNICallback: (name, callback) => callback(null, contexts.get(name) ?? contexts.get("*")),
    },
    (request, response) => void answer(request, response),
  );
  server.on("sessionError", () => undefined);
  server.on("tlsClientError", () => undefined);
  const sockets = new WebSocketServer({ noServer: true });
  server.on("upgrade", (request: IncomingMessage, socket, head) => {
    sockets.handleUpgrade(request, socket, head, (client) => {
      client.send(JSON.stringify(request.headers));
      client.on("message", (data, isBinary) => client.send(data, { binary: isBinary }));
    });
  });
  return new Promise((resolve) => server.listen(443, host, resolve));
}

async function answer(
  request: IncomingMessage | Http2ServerRequest,
  response: ServerResponse | Http2ServerResponse,
): Promise<void> {
  const url = new URL(request.url ?? "/", "https://upstream");
  const write = (chunk: Buffer | string) => (response as ServerResponse).write(chunk);
  if (url.pathname === "/stream") {
    // Each piece is sent when the last has arrived, so that buffering shows.
    for (let piece = 0; piece < 20; piece++) {
      const arrived = new Promise<void>((resolve) => {
        onArrival = resolve;
      });
      write(`piece ${piece}\n`);
      isStreaming = true;
      await arrived;
    }
    isStreaming = false;
    response.end();
    return;
  }
  if (url.pathname === "/arrived") {
    onArrival();
    response.end(isStreaming ? "streaming" : "idle");
    return;
  }
  if (url.pathname === "/authorization-hash") {
    // Tells that the header came without sending it back.
    response.end(createHash("sha256").update(String(request.headers.authorization)).digest("hex"));
    return;
  }
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const chunk of request) {
    hash.update(chunk as Buffer);
    bytes += (chunk as Buffer).length;
  }
  const socket = "stream" in request && request.httpVersion === "2.0" ? request.stream.session?.socket : request.socket;
  const seen: SeenRequest = {
    address: socket?.localAddress ?? "",
    serverName: socket instanceof TLSSocket ? String((socket as TLSSocket & { servername?: unknown }).servername) : "",
    httpVersion: request.httpVersion,
    headers: request.headers,
    bytes,
    sha256: hash.digest("hex"),
  };
  response.end(JSON.stringify(seen));
}
