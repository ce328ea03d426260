import { tenantUse, tenantView } from "../../access/route-access.ts";
import type { ClaimServices } from "../../api/claims/claim-services.ts";
import { bounded } from "../../api/inside/pod-answer.ts";
import { HttpError } from "../../http/http-error.ts";
import { jsonResponse } from "../../http/response.ts";
import type { Route } from "../../http/router.ts";
import { insideCodeOf } from "../connect/connect-error.ts";
import { readUsage } from "../usage.ts";
import type { FindSandbox } from "./sandbox.ts";

/** Where a launcher keeps the claim's variables: `NAME=value`, and a zero byte. */
const VARIABLES = "/run/tenancy/variables";
const MAX_BYTES = 1024 * 1024;

/** The routes that say how a sandbox is. */
export function statusRoutes(find: FindSandbox, { timeOfDay }: Pick<ClaimServices, "timeOfDay">): Route[] {
  return [
    {
      method: "GET",
      path: "/health",
      access: tenantView,
      act: "none",
      async handle(request, context) {
        await find(request, context);
        return new Response(null, { status: 204 });
      },
    },
    {
      method: "GET",
      path: "/envs",
      access: tenantUse,
      async handle(request, context) {
        const inside = await find(request, context);
        try {
          const { data } = await inside.open("read", { path: VARIABLES });
          return jsonResponse(variablesOf((await bounded(data, MAX_BYTES)).toString("utf8")));
        } catch (error) {
          // A claim without variables.
          if (error instanceof HttpError && insideCodeOf(error) === "notFound") return jsonResponse({});
          throw error;
        }
      },
    },
    {
      method: "GET",
      path: "/metrics",
      access: tenantUse,
      act: "none",
      async handle(request, context) {
        const usage = await readUsage(await find(request, context));
        return jsonResponse({
          ts: Math.floor(timeOfDay() / 1000),
          ...{ cpu_count: usage.cpus, cpu_used_pct: usage.cpuPercent },
          ...{ mem_total: usage.memoryLimitBytes, mem_used: usage.memoryBytes, mem_cache: usage.cacheBytes },
          ...{ disk_total: usage.diskTotalBytes, disk_used: usage.diskBytes },
          ...{ mem_total_mib: mebibytes(usage.memoryLimitBytes), mem_used_mib: mebibytes(usage.memoryBytes) },
        });
      },
    },
  ];
}

function mebibytes(bytes: number): number {
  return Math.floor(bytes / 2 ** 20);
}

function variablesOf(text: string): Record<string, string> {
  const pairs = text.split("\0").flatMap((variable) => {
    const end = variable.indexOf("=");
    return end > 0 ? [[variable.slice(0, end), variable.slice(end + 1)]] : [];
  });
  return Object.fromEntries(pairs);
}
