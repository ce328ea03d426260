import { pods } from "../../../crds/client/built-in-resources.ts";
import { WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { quote } from "../../../crds/quote.ts";
import { instanceUse } from "../../access/route-access.ts";
import { HttpError } from "../../http/http-error.ts";
import { instanceNameRule, pathParam, queryFlag } from "../../http/parameters.ts";
import type { RoutedRequest } from "../../http/router.ts";
import { containerRuns, podLogs } from "../../kubectl/pod-logs.ts";
import { type ApiRoute, flagSchema } from "../api-route.ts";
import type { OpenApiSchema } from "../openapi/request-schemas.ts";
import { findInstance, type InstanceServices, instanceError, instanceNotFound } from "./instance.ts";

const DEFAULT_TAIL = 200;
const MAX_TAIL = 100_000;
/** What {@link tailOf} reads. */
export const tailSchema: OpenApiSchema = {
  ...{ type: "integer", minimum: 0, maximum: MAX_TAIL, default: DEFAULT_TAIL },
  description: "Number of last lines.",
};

/** `GET /api/v1/instances/{id}/logs`: the log of the workload's container, as plain text. */
export function logsRoute(services: InstanceServices): ApiRoute {
  return {
    method: "GET",
    path: "/api/v1/instances/:id/logs",
    access: instanceUse,
    summary: "Log of the workload's container",
    query: {
      tail: tailSchema,
      follow: flagSchema("Whether to follow the log."),
      previous: flagSchema("Whether to read the run before the container's last restart."),
    },
    answer: "text/plain",
    errors: [404, 409, 503, 504],
    async handle(request, { clientGone, mayBeSilent, headWaits = false }) {
      const name = pathParam(request, "id", instanceNameRule);
      const [tail, follow] = [tailOf(request), queryFlag(request, "follow")];
      const previous = queryFlag(request, "previous");
      await findInstance(name, services);
      mayBeSilent?.();
      const { kubectl, clock } = services;
      // If the response head cannot be sent early, there is nothing to gain, and the message of a failure would be
      // lost.
      const runs = follow && !headWaits && (await runsNow(name, services));
      const logsRequest = { pod: name, container: WORKLOAD_CONTAINER, tail, follow, previous, runs };
      return podLogs(logsRequest, {
        ...{ kubectl, clock, clientGone: clientGone ?? request.signal },
        failure: (stderr) => instanceError(stderr, { name }),
      });
    },
  };
}

/** By the API server: the edge's cache holds no states of containers. @throws HttpError 404 where the pod has gone */
async function runsNow(name: string, { cluster }: InstanceServices): Promise<boolean> {
  const pod = await cluster(pods).named(name).find();
  if (pod === undefined) throw instanceNotFound(name);
  return containerRuns(pod, WORKLOAD_CONTAINER);
}

/** The query parameter `tail` of a log. @throws HttpError 400 if it is not a number of lines */
export function tailOf({ query }: RoutedRequest): number {
  const { tail } = query;
  if (tail === undefined) return DEFAULT_TAIL;
  const count = typeof tail === "string" && /^\d{1,6}$/.test(tail) ? Number(tail) : Number.NaN;
  if (!(count <= MAX_TAIL)) {
    throw new HttpError(400, `query.tail: must be a whole number from 0 to ${MAX_TAIL}, got ${quote(String(tail))}`);
  }
  return count;
}
