import { createServer, type Server } from "node:http";
import type { ListenAddress } from "../crds/environment.ts";
import type { Metrics } from "./metrics.ts";

/** Serves `/metrics` (Prometheus), `/healthz` (the process runs) and `/readyz` (its watches are open). */
export async function serveHealth(options: {
  listen: ListenAddress;
  metrics: Metrics;
  isReady(): boolean;
}): Promise<{ url: string; stop(): Promise<void> }> {
  const { listen, metrics, isReady } = options;
  const server = createServer((request, response) => {
    const answer = (status: number, body: string, type = "text/plain") => {
      response.writeHead(status, { "content-type": type }).end(request.method === "HEAD" ? undefined : body);
    };
    if (request.method !== "GET" && request.method !== "HEAD") return answer(405, "only GET\n");
    switch (request.url?.split("?")[0]) {
      case "/healthz":
        return answer(200, "ok\n");
      case "/readyz":
        return isReady() ? answer(200, "ok\n") : answer(503, "not connected to the cluster\n");
      case "/metrics":
        return metrics.registry.metrics().then(
          (text) => answer(200, text, metrics.registry.contentType),
          (error: unknown) => answer(500, `${error}\n`),
        );
      default:
        return answer(404, "not found\n");
    }
  });
  await listening(server, listen);
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : listen.port;
  return {
    url: `http://${listen.hostname.includes(":") ? `[${listen.hostname}]` : listen.hostname}:${port}`,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function listening(server: Server, { hostname, port }: ListenAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause) =>
      reject(new Error(`Cannot listen on ${hostname}:${port}: ${cause.message}`, { cause })),
    );
    server.listen(port, hostname, resolve);
  });
}
