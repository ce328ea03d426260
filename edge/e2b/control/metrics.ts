import { quote } from "../../../crds/quote.ts";
import { HttpError } from "../../http/http-error.ts";
import { queryNumber } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import type { Route } from "../../http/router.ts";
import { tenantPlace } from "../tenant-place.ts";
import { readUsage } from "../usage.ts";
import type { ControlServices } from "./control-services.ts";
import { findSandbox } from "./sandbox.ts";
import { sandboxKey, sandboxNotFound, useOne } from "./sandbox-access.ts";

/** `GET /sandboxes/{id}/metrics`: what a sandbox uses now, if that is in the interval. Nothing is recorded. */
export function metricsRoute(services: ControlServices): Route {
  const place = tenantPlace(services);
  return {
    method: "GET",
    path: "/e2b/sandboxes/:sandbox/metrics",
    access: useOne,
    // Programs ask every few seconds.
    act: "none",
    query: { start: {}, end: {} },
    async handle(request, context) {
      const start = queryNumber(request, "start", Number.MAX_SAFE_INTEGER) ?? 0;
      const end = queryNumber(request, "end", Number.MAX_SAFE_INTEGER) ?? Number.POSITIVE_INFINITY;
      if (start > end) throw new HttpError(400, `query.start: must not be after end, got ${quote(String(start))}`);
      const key = sandboxKey(request);
      const found = await findSandbox(key, services, context.clientGone ?? request.signal);
      if (found === undefined) throw sandboxNotFound(request);
      const now = services.timeOfDay();
      const timestampUnix = Math.floor(now / 1000);
      const isActive = found.state === "running" && found.claim.status?.phase === "Active";
      if (!isActive || timestampUnix < start || timestampUnix > end) return jsonResponse([]);
      const params = { id: key.tenantId, workload: key.workloadRef };
      const usage = await readUsage(await place.find(Object.assign(request, { params }), context));
      return jsonResponse([
        {
          ...{ timestamp: new Date(now).toISOString(), timestampUnix },
          ...{ cpuCount: usage.cpus, cpuUsedPct: usage.cpuPercent },
          ...{ memTotal: usage.memoryLimitBytes, memUsed: usage.memoryBytes, memCache: usage.cacheBytes },
          ...{ diskTotal: usage.diskTotalBytes, diskUsed: usage.diskBytes },
        },
      ]);
    },
  };
}
