import { HttpError } from "./http-error.ts";

const reading = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * Refuses what a page of another site makes a browser send, where no key is asked for: else any page that a developer opens
 * could create workloads through the edge on the developer's own machine.
 *
 * Browsers set `Sec-Fetch-Site` and pages cannot; programs do not send it. https://www.w3.org/TR/fetch-metadata/
 *
 * @throws HttpError 403
 */
export function refuseCrossSite(request: Request): void {
  if (reading.has(request.method)) return;
  const site = request.headers.get("sec-fetch-site");
  if (site === null || site === "same-origin" || site === "none") return;
  throw new HttpError(403, "a page of another site sent this request; set TENANCY_API_KEY to tell callers apart");
}
