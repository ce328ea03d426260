import { HttpError } from "./http-error.ts";
import { isLoopback } from "./is-loopback.ts";

/**
 * Refuses a request that was sent to another name than this machine's own, where neither a key nor the operator lets others in: a page
 * whose name was made to point here (DNS rebinding) is the same site to its browser, and its name is all that gives it away.
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
