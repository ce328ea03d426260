import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

export interface FakeRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  readonly socket: Socket;
}

export interface FakeApiServer {
  readonly url: string;
  /** Every request that arrived whole. */
  readonly requests: FakeRequest[];
  /** Cuts every connection, and keeps listening. */
  cut(): void;
  /** Connections that are open now. */
  connections(): number;
  close(): Promise<void>;
}

/** A server on loopback that answers as the test says, also in ways that a real API server does on no order. */
export async function startFakeApiServer(
  answer: (request: FakeRequest, response: ServerResponse) => void,
  port = 0,
): Promise<FakeApiServer> {
  const sockets = new Set<Socket>();
  const requests: FakeRequest[] = [];
  const server = createServer((message, response) => {
    const chunks: Buffer[] = [];
    message.on("data", (chunk: Buffer) => chunks.push(chunk));
    message.on("end", () => {
      const { pathname, searchParams } = new URL(message.url ?? "/", "http://fake");
      const { method = "", headers, socket } = message;
      const request = {
        method,
        path: pathname,
        query: searchParams,
        headers,
        body: Buffer.concat(chunks).toString(),
        socket,
      };
      requests.push(request);
      answer(request, response);
    });
  });
  // Idle connections are the client's to close.
  server.keepAliveTimeout = 0;
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const address = server.address() as AddressInfo;

  function cut(): void {
    for (const socket of sockets) socket.destroy();
  }

  return {
    url: `http://127.0.0.1:${address.port}`,
    requests,
    cut,
    connections: () => sockets.size,
    close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      cut();
      return closed;
    },
  };
}

export function answerJson(
  response: ServerResponse,
  body: unknown,
  fields: { status?: number; headers?: Record<string, string> } = {},
): void {
  response.writeHead(fields.status ?? 200, { "content-type": "application/json", ...fields.headers });
  response.end(JSON.stringify(body));
}
