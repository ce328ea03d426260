import { tenantUse, tenantView } from "../../access/route-access.ts";
import { bounded } from "../../api/inside/pod-answer.ts";
import { HttpError } from "../../http/http-error.ts";
import { jsonResponse } from "../../http/response.ts";
import type { Route } from "../../http/router.ts";
import { insideCodeOf } from "../connect/connect-error.ts";
import type { FindSandbox } from "./sandbox.ts";

/** Where a launcher keeps the claim's variables: `NAME=value`, and a zero byte. */
const VARIABLES = "/run/tenancy/variables";
const MAX_BYTES = 1024 * 1024;

/** The routes that say how a sandbox is. */
export function statusRoutes(find: FindSandbox): Route[] {
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
      access: tenantView,
      act: "none",
      handle() {
        throw new HttpError(501, "/metrics is not implemented by tenancy: ask for the metrics of the sandbox", {
          expected: true,
        });
      },
    },
  ];
}

function variablesOf(text: string): Record<string, string> {
  const pairs = text.split("\0").flatMap((variable) => {
    const end = variable.indexOf("=");
    return end > 0 ? [[variable.slice(0, end), variable.slice(end + 1)]] : [];
  });
  return Object.fromEntries(pairs);
}
