import { connect, createServer } from "node:net";

/** What pods of the local cluster find the API server at; nothing of the cluster itself gives them a way to it. */
export interface ApiForPods {
  readonly port: number;
  close(): Promise<void>;
}

/** One that the policies of `manifests/base` let the operator and the edge reach. */
const PORT = 6443;

/** Passes connections to the address by which pods reach this machine on to the API server, which listens on loopback alone. */
export async function apiForPods(options: { hostAddress: string; server: string }): Promise<ApiForPods> {
  const target = Number(new URL(options.server).port);
  const sockets = new Set<{ destroy(): void }>();
  const server = createServer((inner) => {
    const outer = connect(target, "127.0.0.1");
    for (const [from, to] of [
      [inner, outer],
      [outer, inner],
    ] as const) {
      sockets.add(from);
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
    server.listen(PORT, options.hostAddress, resolve);
  });
  return {
    port: PORT,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}
