import { jsonResponse } from "./json-response.ts";
import type { Serve } from "./serve.ts";
import { serverUrl } from "./server-url.ts";
import { within } from "./within.ts";

interface DenoServer {
  readonly addr: { readonly port: number };
  shutdown(): Promise<void>;
}

declare const Deno: {
  serve(
    options: {
      hostname: string;
      port: number;
      onListen(): void;
      onError(error: unknown): Response;
    },
    handler: (request: Request) => Promise<Response>,
  ): DenoServer;
};

/**
 * Serves a handler with `Deno.serve`; `request.signal` tells when the client has gone.
 *
 * Run Deno with `--unstable-no-legacy-abort`, else it warns once that it aborts the signal of answered requests too, which does no harm.
 */
export const serveDeno: Serve = async ({ handler, listen, log }) => {
  // Deno cannot cut what a shutdown waits for, so what outlives the grace is answered instead.
  const giveUps = new Set<() => void>();
  const answer = (request: Request): Promise<Response> =>
    new Promise((resolve, reject) => {
      const giveUp = (): void => resolve(jsonResponse({ error: "the server stops; try again" }, { status: 503 }));
      giveUps.add(giveUp);
      handler(request)
        .then(resolve, reject)
        .finally(() => giveUps.delete(giveUp));
    });
  const server = Deno.serve(
    {
      hostname: listen.hostname,
      port: listen.port,
      // Deno prints the address unless told otherwise; the log has it.
      onListen: () => undefined,
      onError(error) {
        log.error({ error: String(error) }, "answer could not be sent");
        return jsonResponse({ error: "internal error" }, { status: 500 });
      },
    },
    answer,
  );
  return {
    url: serverUrl(listen.hostname, server.addr.port),
    async stop({ graceMs }) {
      const finished = await within(server.shutdown(), graceMs);
      for (const giveUp of giveUps) giveUp();
      return finished;
    },
  };
};
