import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface TcpProxy {
  readonly port: number;
  /** Ends every connection, and accepts new ones. */
  cut(): void;
  /** Keeps the current connections open, but forwards nothing more on them, like a broken network. */
  freeze(): void;
  /** Forwards nothing on any connection, old or new, until `admit` ends them all. */
  hold(): void;
  /** Ends every connection and refuses new ones, until `admit`. */
  block(): void;
  admit(): void;
  /** The number of connections so far. */
  connections(): number;
  close(): Promise<void>;
}

/**
 * A proxy between a client and a server on loopback that simulates network failures.
 *
 * @param listen the default is a free port of loopback
 */
export async function startTcpProxy(
  target: { port: number },
  listen: { host: string; port: number } = { host: "127.0.0.1", port: 0 },
): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let blocked = false;
  let held = false;
  let connections = 0;

  const server = createServer((inner) => {
    if (blocked) {
      inner.destroy();
      return;
    }
    connections += 1;
    if (held) {
      sockets.add(inner.pause());
      inner.on("error", () => inner.destroy()).on("close", () => sockets.delete(inner));
      return;
    }
    const outer = connect(target.port, "127.0.0.1");
    for (const [from, to] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      sockets.add(from);
      from.setNoDelay(true);
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(listen, resolve);
  });

  function cut(): void {
    for (const socket of sockets) socket.destroy();
  }

  function freeze(): void {
    for (const socket of sockets) socket.unpipe().pause();
  }

  return {
    port: (server.address() as AddressInfo).port,
    cut,
    freeze,
    hold() {
      held = true;
      freeze();
    },
    block() {
      blocked = true;
      cut();
    },
    admit() {
      blocked = false;
      if (held) cut();
      held = false;
    },
    connections: () => connections,
    close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      cut();
      return closed;
    },
  };
}
