import { jsonResponse } from "../http/json-response.ts";
import type { Route } from "../http/route.ts";

/** `GET /api/v1/health`: the process is alive, whatever the cluster does. */
export const healthRoute: Route = {
  method: "GET",
  path: "/api/v1/health",
  public: true,
  handle: () => jsonResponse({ status: "ok" }),
};
