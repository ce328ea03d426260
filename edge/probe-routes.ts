import { jsonResponse } from "./http/json-response.ts";
import type { Route } from "./http/route.ts";
import type { Metrics } from "./metrics.ts";

/** The routes of the metrics listener: `/metrics`, `/healthz` (alive), `/readyz` (has a current view of the cluster). */
export function probeRoutes(options: { metrics: Metrics; isReady: () => boolean }): Route[] {
  const { metrics, isReady } = options;
  return [
    {
      method: "GET",
      path: "/metrics",
      query: "any",
      async handle() {
        return new Response(await metrics.render(), { headers: { "content-type": metrics.contentType } });
      },
    },
    { method: "GET", path: "/healthz", query: "any", handle: () => jsonResponse({ status: "ok" }) },
    {
      method: "GET",
      path: "/readyz",
      query: "any",
      handle: () =>
        isReady()
          ? jsonResponse({ status: "ok" })
          : jsonResponse({ error: "no current view of the cluster" }, { status: 503 }),
    },
  ];
}
