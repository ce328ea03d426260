import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import type { PodTarget } from "../../../edge/proxy/pod-connections.ts";
import { closeAfter } from "./start-proxy.ts";

/** A server of bytes in the place of a pod: what it received is seen exactly, and what it sends is written by hand. */
export interface FakePod {
  readonly target: PodTarget;
  /** Everything received, of all connections, in Latin-1. */
  received(): string;
  /** Connections so far. */
  readonly connections: readonly Socket[];
}

/**
 * Starts one.
 *
 * @param answer called with each piece that arrives; `text` is what this connection has received since it was last
 *   called with `done`
 */
export async function startPod(
  answer: (connection: { socket: Socket; text: string; done(): void }) => void = answerOk,
): Promise<FakePod> {
  let received = "";
  const connections: Socket[] = [];
  const server = createServer((socket) => {
    connections.push(socket);
    let text = "";
    const done = (): void => {
      text = "";
    };
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1");
      text += chunk.toString("latin1");
      answer({ socket, text, done });
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  closeAfter(async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of connections) socket.destroy();
    await closed;
  });
  return {
    target: { uid: "pod-1", host: "127.0.0.1", port, confirm: async () => true },
    received: () => received,
    connections,
  };
}

/** Answers each head with `ok`. */
export function answerOk({ socket, text, done }: { socket: Socket; text: string; done(): void }): void {
  if (!text.includes("\r\n\r\n")) return;
  done();
  socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

/** Answers each head with a text, as it is. */
export function answerWith(response: string): typeof answerOk {
  return ({ socket, text, done }) => {
    if (!text.includes("\r\n\r\n")) return;
    done();
    socket.write(response, "latin1");
  };
}
