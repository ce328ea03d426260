import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import { eventually } from "../../eventually.ts";

/** The container's end of one conversation. */
export interface AgentEnd {
  readonly socket: WebSocket;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  say(message: unknown): void;
  /** Waits for the next message. @throws Error when the connection ends first */
  hear(): Promise<Record<string, unknown>>;
  readonly closed: Promise<number>;
}

/** A WebSocket server on loopback that plays a container. */
export interface AgentServer {
  readonly port: number;
  readonly conversations: AgentEnd[];
  /** What every client has said, in order. */
  readonly heard: Record<string, unknown>[];
  /** Connections that are open at this moment. */
  open(): number;
  close(): Promise<void>;
}

export async function startAgentServer(
  play: (agent: AgentEnd) => Promise<void>,
  { host = "127.0.0.1", port = 0 }: { host?: string; port?: number } = {},
): Promise<AgentServer> {
  const conversations: AgentEnd[] = [];
  const heard: Record<string, unknown>[] = [];
  const http = createServer();
  const server = new WebSocketServer({ server: http, perMessageDeflate: false });
  server.on("connection", (socket, request) => {
    const waiting: Record<string, unknown>[] = [];
    let wake: (() => void) | undefined;
    let ended = false;
    const end = (): void => {
      ended = true;
      wake?.();
    };
    socket.on("message", (data) => {
      const message = JSON.parse(String(data));
      heard.push(message);
      waiting.push(message);
      wake?.();
    });
    // The client lets go in the middle of things, as the tests want.
    socket.on("error", () => socket.terminate());
    const agent: AgentEnd = {
      socket,
      path: request.url ?? "",
      headers: request.headers,
      say: (message) => socket.send(typeof message === "string" ? message : JSON.stringify(message)),
      async hear() {
        if (waiting.length === 0 && !ended) await new Promise<void>((resolve) => (wake = resolve));
        const message = waiting.shift();
        if (message === undefined) throw new Error("the client has gone");
        return message;
      },
      closed: new Promise((resolve) =>
        socket.on("close", (code) => {
          end();
          resolve(code);
        }),
      ),
    };
    conversations.push(agent);
    play(agent).catch((error: unknown) => {
      if (!ended) throw error;
    });
  });
  await new Promise<void>((resolve) => http.listen(port, host, resolve));
  return {
    port: (http.address() as AddressInfo).port,
    conversations,
    heard,
    open: () => server.clients.size,
    async close() {
      for (const { socket } of conversations) socket.terminate();
      server.close();
      http.closeAllConnections();
      await new Promise((resolve) => http.close(resolve));
    },
  };
}

/** Plays a container while a test talks to it; every connection is closed by the time that the test is over. */
export async function withAgent(
  play: (agent: AgentEnd) => Promise<void>,
  use: (server: AgentServer) => Promise<void>,
  listen: { host?: string } = {},
): Promise<void> {
  const server = await startAgentServer(play, listen);
  try {
    await use(server);
    await eventually(() => server.open() === 0);
  } finally {
    await server.close();
  }
}
