import { BlockList, isIP } from "node:net";
import { HttpError } from "./http-error.ts";

const reading = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * Throws if a request was made by a page that is not allowed.
 *
 * @param options.isStranger whether it is a WebSocket without the key although one is set: pages at a hostname are
 * refused then, since the name may have been made to point here (DNS rebinding) @default false
 */
export type PageCheck = (request: Request, options?: { isStranger?: boolean }) => void;

/**
 * Returns a check for servers without a key, and always for `/ws`. It refuses requests that a page of another site
 * sends: otherwise any page that a developer opens could create workloads through the edge on the developer's own
 * machine, or read its events.
 *
 * Browsers set `Sec-Fetch-Site` on requests and `Origin` on WebSockets, and pages cannot change them; programs send
 * neither header. https://www.w3.org/TR/fetch-metadata/
 *
 * @param options.localOnly whether only this machine's own names are allowed as host
 * @param options.origins allowed pages (TENANCY_CORS_ORIGIN); `*` for all
 */
export function createPageCheck(options: { localOnly: boolean; origins: ReadonlySet<string> }): PageCheck {
  return (request, { isStranger = false } = {}) => {
    if (options.localOnly) refuseForeignHost(request);
    const { headers } = request;
    const isSocket = headers.get("upgrade") !== null;
    if (!isSocket && reading.has(request.method)) return;
    const origin = headers.get("origin");
    if (origin !== null && (options.origins.has(origin) || options.origins.has("*"))) return;
    // The browser treats it as a page of the edge, whose own names are not known here.
    if (isStranger && origin !== null && isName(origin))
      throw new HttpError(
        403,
        "a page without the key sent this request; log in, or add its origin to TENANCY_CORS_ORIGIN",
      );
    const site = headers.get("sec-fetch-site");
    const isForeign = site !== null && site !== "same-origin" && site !== "none";
    if (!isForeign && !(isSocket && origin !== null && hostOf(origin) !== headers.get("host"))) return;
    const advice = isSocket ? "" : ", or set TENANCY_API_KEY to authenticate callers";
    throw new HttpError(
      403,
      `a page of another site sent this request; add its origin to TENANCY_CORS_ORIGIN${advice}`,
    );
  };
}

/** Whether an origin's host is a name, whose owner can point it to another machine. */
function isName(origin: string): boolean {
  const hostname = URL.canParse(origin) ? new URL(origin).hostname.replace(/^\[|\]$/g, "") : "";
  return isIP(hostname) === 0 && hostname !== "localhost";
}

export function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

/** Whether only this machine can reach the host. */
export function isLoopback(hostname: string): boolean {
  const family = isIP(hostname);
  if (family === 0) return hostname.toLowerCase() === "localhost";
  // Checking a list takes longer than the rest of a short request's checks.
  return family === 4 ? hostname.startsWith("127.") : loopback.check(hostname, "ipv6");
}

/**
 * Refuses a request to a host other than this machine's own names, if there is no key and the operator has not allowed
 * others. A page whose name was made to point here (DNS rebinding) is the same site to its browser; only its name
 * reveals it.
 *
 * @throws HttpError 403
 */
export function refuseForeignHost(request: Request): void {
  const host = request.headers.get("host");
  // HTTP/1.0 programs send no Host; browsers always do.
  if (host === null || isLoopback(host.replace(/:\d*$/, "").replace(/^\[|\]$/g, ""))) return;
  throw new HttpError(
    403,
    "the Host header names a machine other than this one; set TENANCY_API_KEY, or TENANCY_ALLOW_ANONYMOUS=true to serve everyone",
  );
}
