import { jsonResponse } from "./json-response.ts";
import type { Serve } from "./serve.ts";
import { serverUrl } from "./server-url.ts";
import { within } from "./within.ts";

interface DenoServer {
  readonly addr: { readonly port: number };
  readonly finished: Promise<void>;
  shutdown(): Promise<void>;
}

declare const Deno: {
  serve(
    options: {
      hostname: string;
      port: number;
      signal: AbortSignal;
      onListen(): void;
      onError(error: unknown): Response;
    },
    handler: (request: Request) => Promise<Response>,
  ): DenoServer;
};

/** Serves a handler with `Deno.serve`; `request.signal` tells when the client has gone. */
export const serveDeno: Serve = async ({ handler, listen, log }) => {
  const cut = new AbortController();
  const server = Deno.serve(
    {
      hostname: listen.hostname,
      port: listen.port,
      signal: cut.signal,
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
    async stop({ graceMs }) {
      const finished = await within(server.shutdown(), graceMs);
      if (!finished) cut.abort();
      return finished;
    },
  };
};
