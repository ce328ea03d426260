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
    (request) => handler(request),
  );
  return {
    url: serverUrl(listen.hostname, server.addr.port),
    // Deno cannot cut what a shutdown waits for: that happens when the process ends.
    stop: ({ graceMs }) => within(server.shutdown(), graceMs),
  };
};
