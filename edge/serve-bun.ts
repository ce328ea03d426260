import { jsonResponse } from "./json-response.ts";
import type { Serve } from "./serve.ts";
import { serverUrl } from "./server-url.ts";
import { within } from "./within.ts";

interface BunServer {
  readonly port: number;
  stop(closeActiveConnections: boolean): Promise<void>;
}

declare const Bun: {
  serve(options: {
    hostname: string;
    port: number;
    /** Seconds without a byte until a connection is cut. */
    idleTimeout: number;
    maxRequestBodySize: number;
    development: boolean;
    reusePort: boolean;
    fetch(request: Request): Promise<Response>;
    error(error: Error): Response;
  }): BunServer;
};

/** A claim call is silent for 30 s, and a stream's keep-alive must fit in between. */
const IDLE_SECONDS = 120;

/** Serves a handler with `Bun.serve`; `request.signal` tells when the client has gone. */
export const serveBun: Serve = async ({ handler, listen, log }) => {
  const server = Bun.serve({
    hostname: listen.hostname,
    port: listen.port,
    idleTimeout: IDLE_SECONDS,
    // The handler refuses large bodies itself, with a message; Bun's own 413 has no body.
    maxRequestBodySize: Number.MAX_SAFE_INTEGER,
    development: false,
    // Without development mode, two servers would share a port and nobody be told.
    reusePort: false,
    fetch: (request) => handler(request),
    error(error) {
      log.error({ error: error.message }, "answer could not be sent");
      return jsonResponse({ error: "internal error" }, { status: 500 });
    },
  });
  return {
    url: serverUrl(listen.hostname, server.port),
    async stop({ graceMs }) {
      const finished = await within(server.stop(false), graceMs);
      if (!finished) await server.stop(true);
      return finished;
    },
  };
};
