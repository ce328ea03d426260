import { createServer, type Socket } from "node:net";

/** A request as it came over the wire. */
export interface WireRequest {
  readonly head: string;
  readonly body: string;
  readonly socket: Socket;
}

/** A TCP server on loopback that answers HTTP by hand, however wrong. */
export interface WireServer {
  readonly port: number;
  readonly url: string;
  readonly requests: WireRequest[];
  /** Connections that have ever been made. */
  connections(): number;
  /** Resolves when no connection is left open. */
  drained(): Promise<void>;
  close(): Promise<void>;
}

/** @param answer is called with each request, once it is here whole */
export async function startWireServer(
  answer: (request: WireRequest) => void,
  { host = "127.0.0.1", port = 0 }: { host?: string; port?: number } = {},
): Promise<WireServer> {
  const requests: WireRequest[] = [];
  const open = new Set<Socket>();
  const waiting = new Set<() => void>();
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    open.add(socket);
    socket.on("close", () => {
      open.delete(socket);
      if (open.size === 0) for (const resolve of waiting) resolve();
    });
    // Clients that give up break their connections.
    socket.on("error", () => socket.destroy());
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      const end = text.indexOf("\r\n\r\n");
      if (end === -1) return;
      const head = text.slice(0, end);
      const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0);
      if (text.length < end + 4 + length) return;
      const request = { head, body: text.slice(end + 4, end + 4 + length), socket };
      text = text.slice(end + 4 + length);
      requests.push(request);
      answer(request);
    });
  });
  await new Promise<void>((resolve, reject) => server.on("error", reject).listen(port, host, resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return {
    port: address.port,
    url: `http://${host.includes(":") ? `[${host}]` : host}:${address.port}`,
    requests,
    connections: () => connections,
    async drained() {
      if (open.size > 0) await new Promise<void>((resolve) => waiting.add(resolve));
    },
    async close() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** An HTTP/1.1 answer that ends its connection. */
export function httpAnswer(status: number, body = "", headers: Record<string, string> = {}): string {
  const lines = Object.entries({ "content-length": String(Buffer.byteLength(body)), connection: "close", ...headers });
  return `HTTP/1.1 ${status} Any\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`;
}
