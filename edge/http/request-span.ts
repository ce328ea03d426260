import { parseTraceparent } from "../../crds/tracing/trace-context.ts";
import type { Span, Tracer } from "../../crds/tracing/tracer.ts";

const READS = new Set(["GET", "HEAD", "OPTIONS"]);
const KNOWN = new Set([...READS, "POST", "PUT", "PATCH", "DELETE"]);

/**
 * Starts the span of a request, within the trace of its `traceparent`. A read without that header starts none:
 * dashboards and probes read all the time.
 *
 * @param options.isTrusted whether the header counts. @default true
 */
export function startRequestSpan(
  request: Request,
  tracer: Tracer,
  { isTrusted = true }: { isTrusted?: boolean } = {},
): Span | undefined {
  const { method } = request;
  const parent = isTrusted ? parseTraceparent(request.headers.get("traceparent")) : undefined;
  if (parent === undefined && READS.has(method)) return undefined;
  return tracer.start(method, { parent, kind: "server" });
}

/**
 * Ends the span of a request with its response.
 *
 * https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-server
 *
 * @param answered.route its pattern; undefined for none
 */
export function endRequestSpan(
  span: Span,
  { method, route, status }: { method: string; route: string | undefined; status: number },
): void {
  const isKnown = KNOWN.has(method);
  const verb = isKnown ? method : "HTTP";
  span.rename(route === undefined ? verb : `${verb} ${route}`);
  span.set({
    "http.request.method": isKnown ? method : "_OTHER",
    "http.route": route,
    "http.response.status_code": status,
    "url.scheme": "http",
  });
  span.end(status >= 500 ? { error: String(status) } : {});
}
