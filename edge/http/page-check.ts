import { BlockList, isIP } from "node:net";
import { HttpError } from "./http-error.ts";

const reading = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * Throws where a request was made by a page that may not.
 *
 * @param options.isStranger whether it is a WebSocket that shows no key where one is set: then no page at a name may,
 *   which may have been made to point here (DNS rebinding) @default false
 */
export type PageCheck = (request: Request, options?: { isStranger?: boolean }) => void;

/**
 * Returns a check for where no key is asked for, and for `/ws` always: it refuses what a page of another site makes a
 * browser send, else any page that a developer opens could create workloads through the edge on the developer's own
 * machine, or read its events.
 *
 * Browsers set `Sec-Fetch-Site` on requests and `Origin` on WebSockets, and pages cannot; programs send neither.
 * https://www.w3.org/TR/fetch-metadata/
 *
 * @param options.localOnly whether only this machine's own names may be asked for
 * @param options.origins pages that may (TENANCY_CORS_ORIGIN); `*` for all
 */
export function createPageCheck(options: { localOnly: boolean; origins: ReadonlySet<string> }): PageCheck {
  return (request, { isStranger = false } = {}) => {
    if (options.localOnly) refuseForeignHost(request);
    const { headers } = request;
    const isSocket = headers.get("upgrade") !== null;
    if (!isSocket && reading.has(request.method)) return;
    const origin = headers.get("origin");
    if (origin !== null && (options.origins.has(origin) || options.origins.has("*"))) return;
    // Its browser takes it for a page of the edge, whose own names are not known here.
    if (isStranger && origin !== null && isName(origin))
      throw new HttpError(403, "a page that shows no key sent this request; log in, or name it in TENANCY_CORS_ORIGIN");
    const site = headers.get("sec-fetch-site");
    const isForeign = site !== null && site !== "same-origin" && site !== "none";
    if (!isForeign && !(isSocket && origin !== null && hostOf(origin) !== headers.get("host"))) return;
    const advice = isSocket ? "" : ", or set TENANCY_API_KEY to tell callers apart";
    throw new HttpError(
      403,
      `a page of another site sent this request; name its origin in TENANCY_CORS_ORIGIN${advice}`,
    );
  };
}

/** Whether an origin's host is a name, which somebody else can have point to another machine. */
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
  // A list takes longer to ask than the rest of a short request's checks.
  return family === 4 ? hostname.startsWith("127.") : loopback.check(hostname, "ipv6");
}

/**
 * Refuses a request that was sent to another name than this machine's own, where neither a key nor the operator lets
 * others in: a page whose name was made to point here (DNS rebinding) is the same site to its browser, and its name is
 * all that gives it away.
 *
 * @throws HttpError 403
 */
export function refuseForeignHost(request: Request): void {
  const host = request.headers.get("host");
  // HTTP/1.0 programs send none; browsers always do.
  if (host === null || isLoopback(host.replace(/:\d*$/, "").replace(/^\[|\]$/g, ""))) return;
  throw new HttpError(
    403,
    "the Host header names another machine than this one; set TENANCY_API_KEY, or TENANCY_ALLOW_ANONYMOUS=true to serve everyone",
  );
}
