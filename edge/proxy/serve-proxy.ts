import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { createServer, type Socket } from "node:net";
import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import type { ListenAddress } from "../../crds/environment.ts";
import type { Log } from "../../crds/log.ts";
import { within } from "../../crds/waits.ts";
import { type Server, serverUrl } from "../serve/serve.ts";
import { type ClientLimits, type Route, serveClient } from "./client-connection.ts";
import { createOriginReader, type OriginReader } from "./entry/origin.ts";
import { createHeldBytes } from "./held-bytes.ts";
import { answerText, errorAnswer } from "./http/local-answer.ts";
import { createPodConnections } from "./pod-connections.ts";
import { createTimeLimits } from "./time-limit.ts";

/** Limits of a proxy; times in milliseconds. */
export interface ProxyLimits extends ClientLimits {
  /** Connections of clients. */
  readonly connections: number;
  /** Memory of the buffers of all connections. */
  readonly heldBytes: number;
  /** How long a pod may take to accept a connection. */
  readonly connectMs: number;
}

export const defaultLimits: ProxyLimits = {
  connections: 20_000,
  heldBytes: 256 * 1024 * 1024,
  head: { bytes: 32 * 1024, fields: 100 },
  headMs: 15_000,
  idleMs: 60_000,
  firstByteMs: 300_000,
  silentMs: 3_600_000,
  lingerMs: 2000,
  connectMs: 5000,
};

/** A proxy that listens. */
export interface ProxyServer extends Server {
  readonly port: number;
  /** From now on every response closes its connection; requests are accepted as before. */
  leave(): void;
  openConnections(): { readonly clients: number; readonly pods: number };
}

const TOO_MANY = errorAnswer(503, "too many connections; try again shortly", [["Retry-After", "1"]]);

/**
 * Listens for requests to pods. HTTP/1.1 is read and written here, on plain sockets: the runtimes' own servers differ
 * in what they accept and in what they change.
 *
 * @throws if the address is taken or does not belong to this machine
 */
export async function serveProxy(options: {
  route: Route;
  listen: ListenAddress;
  log: Log;
  requestId: () => string;
  limits?: Partial<ProxyLimits>;
  /** @default the peer, over HTTP */
  originOf?: OriginReader;
  /** @default independent of the system's clock, whose changes would otherwise end open connections */
  clock?: Clock;
  /** Called with the status of each request that is refused before routing. */
  onRefused?: ((status: number) => void) | undefined;
}): Promise<ProxyServer> {
  const { route, listen, log, requestId, clock = steadyClock } = options;
  const originOf = options.originOf ?? createOriginReader({ trusted: [], scheme: "http" });
  const limits = { ...defaultLimits, ...options.limits };
  const held = createHeldBytes(limits.heldBytes);
  const connections = createPodConnections({ clock, connectMs: limits.connectMs, held });
  const times = createTimeLimits(clock);
  const clients = new Map<Socket, ReturnType<typeof serveClient>>();
  /** Connections without an admitted request, the oldest first. */
  const waiting = new Set<Socket>();
  let leaving = false;
  let stopping = false;

  /** Otherwise visitors that are not admitted could occupy all connections. */
  function makeRoom(): boolean {
    const [longest] = waiting;
    if (longest === undefined) return false;
    waiting.delete(longest);
    longest.destroy();
    return true;
  }

  const server = createServer({ noDelay: true }, (socket) => {
    if (clients.size >= limits.connections && !makeRoom()) {
      options.onRefused?.(TOO_MANY.status);
      socket.on("error", () => socket.destroy());
      socket.end(answerText(TOO_MANY, { method: "GET", keepAlive: false, requestId: requestId() }), () =>
        socket.destroy(),
      );
      return;
    }
    const limit = times.create();
    clients.set(
      socket,
      serveClient({
        socket,
        route,
        requestId,
        originOf,
        connections,
        limits,
        limit,
        held,
        clock,
        log,
        isLeaving: () => leaving,
        isStopping: () => stopping,
        onRefused: options.onRefused,
        onBusy(isBusy) {
          if (isBusy) waiting.delete(socket);
          else if (clients.has(socket)) waiting.add(socket);
        },
      }),
    );
    waiting.add(socket);
    socket.once("close", () => {
      clients.delete(socket);
      waiting.delete(socket);
      if (stopping && clients.size === 0) onEmpty();
    });
  });
  let onEmpty: () => void = () => undefined;
  server.listen({ port: listen.port, host: listen.hostname, backlog: 4096 });
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;

  return {
    url: serverUrl(listen.hostname, port),
    port,
    openConnections: () => ({ clients: clients.size, pods: connections.size }),
    leave() {
      leaving = true;
    },
    async stop({ graceMs }) {
      leaving = true;
      stopping = true;
      const closed = new Promise((resolve) => server.close(resolve));
      const empty = new Promise<void>((resolve) => {
        onEmpty = resolve;
        if (clients.size === 0) resolve();
      });
      for (const client of clients.values()) client.stopSoon();
      const finished = await within(empty, graceMs);
      for (const client of clients.values()) client.stop();
      await within(empty, limits.lingerMs);
      for (const client of clients.values()) client.cut();
      await closed;
      connections.close();
      times.close();
      return finished;
    },
  };
}
