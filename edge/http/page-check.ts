import { HttpError } from "./http-error.ts";
import { refuseForeignHost } from "./refuse-foreign-host.ts";

const reading = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * Returns a check for where no key is asked for, and for `/ws` always: it refuses what a page of another site makes a browser send, else
 * any page that a developer opens could create workloads through the edge on the developer's own machine, or read its events.
 *
 * Browsers set `Sec-Fetch-Site` on requests and `Origin` on WebSockets, and pages cannot; programs send neither.
 * https://www.w3.org/TR/fetch-metadata/
 *
 * @param options.localOnly whether only this machine's own names may be asked for
 * @param options.origins pages that may (TENANCY_CORS_ORIGIN); `*` for all
 */
export function createPageCheck(options: {
  localOnly: boolean;
  origins: ReadonlySet<string>;
}): (request: Request) => void {
  return (request) => {
    if (options.localOnly) refuseForeignHost(request);
    const { headers } = request;
    const isSocket = headers.get("upgrade") !== null;
    if (!isSocket && reading.has(request.method)) return;
    const origin = headers.get("origin");
    if (origin !== null && (options.origins.has(origin) || options.origins.has("*"))) return;
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

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}
