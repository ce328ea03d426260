import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { pause } from "../../../scripts/cluster/process/wait-until.ts";

/** One of the servers behind a balancer. */
export interface Backend {
  readonly url: string;
  /** Answers 200 while it is ready. */
  readonly readyUrl: string;
}

/** What stands in front of the edges, as a Service does. */
export interface Balancer {
  readonly url: string;
  /** Resolves once it was ready for the first time. */
  add(backend: Backend): Promise<void>;
  /** Sends it nothing new; resolves once its connections have ended. */
  remove(backend: Backend): Promise<void>;
  stop(): Promise<void>;
}

interface Member extends Backend {
  isReady: boolean;
  readonly connections: Set<Socket>;
}

const LOOK_MS = 100;

/**
 * Sends each connection to the next backend that is ready by its own word, looked at ten times a second. It knows no
 * HTTP; what it tries again is a connection that was refused, with nothing sent.
 */
export async function startBalancer(): Promise<Balancer> {
  const members = new Map<string, Member>();
  const ending = new AbortController();
  let turn = 0;

  async function follow(member: Member, onReady: () => void): Promise<void> {
    while (members.get(member.url) === member && !ending.signal.aborted) {
      const answer = await fetch(member.readyUrl, { signal: AbortSignal.timeout(5000) }).catch(() => undefined);
      await answer?.arrayBuffer();
      member.isReady = answer?.status === 200;
      if (member.isReady) onReady();
      await pause(LOOK_MS, ending.signal);
    }
  }

  function pass(client: Socket): void {
    const ready = [...members.values()].filter(({ isReady }) => isReady);
    turn += 1;
    tryNext(client, [...ready.slice(turn % ready.length), ...ready.slice(0, turn % ready.length)]);
  }

  function tryNext(client: Socket, [member, ...others]: Member[]): void {
    if (member === undefined) {
      client.destroy();
      return;
    }
    const { hostname, port } = new URL(member.url);
    const server = connect(Number(port), hostname);
    const refused = (): void => tryNext(client, others);
    server.once("error", refused);
    server.once("connect", () => {
      server.off("error", refused);
      member.connections.add(client);
      server.on("error", () => client.destroy());
      server.on("close", () => client.end());
      client.on("close", () => {
        member.connections.delete(client);
        server.destroy();
      });
      client.pipe(server);
      server.pipe(client);
    });
  }

  const server = createServer({ pauseOnConnect: true, noDelay: true }, (client) => {
    client.on("error", () => client.destroy());
    pass(client);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const clients = new Set<Socket>();
  server.on("connection", (client) => {
    clients.add(client);
    client.once("close", () => clients.delete(client));
  });

  return {
    url: `http://127.0.0.1:${port}`,
    add({ url, readyUrl }) {
      const member: Member = { url, readyUrl, isReady: false, connections: new Set() };
      members.set(url, member);
      return new Promise((resolve) => void follow(member, resolve));
    },
    async remove({ url }) {
      const member = members.get(url);
      members.delete(url);
      await Promise.all(
        [...(member?.connections ?? [])].map((client) => new Promise((resolve) => client.once("close", resolve))),
      );
    },
    async stop() {
      ending.abort();
      const closed = new Promise((resolve) => server.close(resolve));
      for (const client of clients) client.destroy();
      await closed;
    },
  };
}
