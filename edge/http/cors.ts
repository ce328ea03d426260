/** Allows pages of other origins to use the API (https://fetch.spec.whatwg.org/#http-cors-protocol). */
export interface Cors {
  /** The response to a preflight of an allowed origin; otherwise undefined. */
  preflight(request: Request): Response | undefined;
  /** Adds the headers that allow the page to read a response. */
  allow(request: Request, response: Response): void;
}

/** The last two lines are those of E2B's SDKs. */
const HEADERS = [
  ...["authorization", "content-type", "if-match", "if-none-match", "x-request-id"],
  ...["mcp-session-id", "mcp-protocol-version"],
  ...["x-api-key", "x-access-token", "e2b-sandbox-id", "e2b-sandbox-port"],
  ...["connect-protocol-version", "connect-timeout-ms", "keepalive-ping-interval"],
];

/** @param origins origins such as `https://app.example.com`; a single `*` means all */
export function createCors(origins: ReadonlySet<string>): Cors {
  const isOpen = origins.has("*");

  function allow(request: Request, { headers }: Response): void {
    if (isOpen) {
      headers.set("access-control-allow-origin", "*");
    } else {
      // A shared cache must not return a response that names another page.
      headers.append("vary", "Origin");
      const origin = request.headers.get("origin");
      if (origin === null || !origins.has(origin)) return;
      headers.set("access-control-allow-origin", origin);
    }
    headers.set(
      "access-control-expose-headers",
      "x-request-id, retry-after, allow, etag, x-tenancy-version, x-tenancy-next, mcp-session-id",
    );
  }

  return {
    allow,
    preflight(request) {
      const origin = request.headers.get("origin");
      if (request.method !== "OPTIONS" || origin === null) return undefined;
      if (request.headers.get("access-control-request-method") === null) return undefined;
      if (!isOpen && !origins.has(origin)) return undefined;
      return new Response(null, {
        status: 204,
        headers: {
          "access-control-allow-methods": "GET, HEAD, POST, PUT, DELETE",
          "access-control-allow-headers": HEADERS.join(", "),
          "access-control-max-age": "600",
        },
      });
    },
  };
}
