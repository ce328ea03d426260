import { HttpError } from "../../http/http-error.ts";
import { pathParam, queryFlag } from "../../http/path-param.ts";
import { quote } from "../../http/quote.ts";
import type { RoutedRequest } from "../../http/router.ts";
import { podLogs } from "../../kubectl/pod-logs.ts";
import { type ApiRoute, flagSchema } from "../api-route.ts";
import { instanceNameRule } from "../name-rules.ts";
import { findInstance, type InstanceServices } from "./find-instance.ts";

const DEFAULT_TAIL = 200;
const MAX_TAIL = 100_000;

/** `GET /api/v1/instances/{id}/logs`: what the workload's container printed, as plain text. */
export function logsRoute(services: InstanceServices): ApiRoute {
  return {
    method: "GET",
    path: "/api/v1/instances/:id/logs",
    summary: "What the workload's container printed",
    query: {
      tail: { type: "integer", minimum: 0, maximum: 100000, default: 200, description: "The last lines, this many." },
      follow: flagSchema("Whether to go on with what is printed from now on."),
      previous: flagSchema("Whether it is about the run before the container's last restart."),
    },
    answer: "text/plain",
    errors: [404, 409, 503, 504],
    async handle(request, { clientGone, mayBeSilent }) {
      const name = pathParam(request, "id", instanceNameRule);
      const logsRequest = {
        name,
        tail: tailOf(request),
        follow: queryFlag(request, "follow"),
        previous: queryFlag(request, "previous"),
      };
      await findInstance(name, services);
      mayBeSilent?.();
      const { kubectl, clock } = services;
      const body = await podLogs(logsRequest, { kubectl, clock, clientGone: clientGone ?? request.signal });
      return new Response(body, {
        headers: { "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff" },
      });
    },
  };
}

function tailOf({ query }: RoutedRequest): number {
  const { tail } = query;
  if (tail === undefined) return DEFAULT_TAIL;
  const count = typeof tail === "string" && /^\d{1,6}$/.test(tail) ? Number(tail) : Number.NaN;
  if (!(count <= MAX_TAIL)) {
    throw new HttpError(400, `query.tail: must be a whole number from 0 to ${MAX_TAIL}, got ${quote(String(tail))}`);
  }
  return count;
}
