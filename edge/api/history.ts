import { quote } from "../../crds/quote.ts";
import { serviceView } from "../access/route-access.ts";
import { requireFresh } from "../cluster/freshness.ts";
import type { ClusterCache } from "../cluster/watch-cluster.ts";
import { CLAIM_STEP_SECONDS, type ClaimHistory } from "../history/claim-history.ts";
import { POOL_STEP_SECONDS, type PoolHistory } from "../history/pool-history.ts";
import { HttpError } from "../http/http-error.ts";
import { pathParam, poolNameRule } from "../http/parameters.ts";
import { jsonResponse } from "../http/response.ts";
import type { ApiRoute } from "./api-route.ts";

export interface HistoryServices {
  readonly history: { readonly claims: Pick<ClaimHistory, "read">; readonly pools: Pick<PoolHistory, "read"> };
  readonly cache: Pick<ClusterCache, "claims" | "pods" | "pools">;
  readonly namespace: string;
  /** A name of this process. */
  readonly instance: string;
}

/** Routes for the last hour as recorded by this process. */
export function historyRoutes({ history, cache, namespace, instance }: HistoryServices): ApiRoute[] {
  const shown = <Hour extends { readonly from: number }>({ from, ...hour }: Hour, stepSeconds: number): Response =>
    jsonResponse({ since: new Date(from).toISOString(), replica: instance, stepSeconds, ...hour });
  return [
    {
      method: "GET",
      path: "/api/v1/history/claims",
      access: serviceView,
      summary: "Claims of the last hour: count, latency, source, and reasons of failures",
      description: "Each replica records its own history in memory since its start.",
      answer: "ClaimHistory",
      errors: [503],
      handle() {
        requireFresh(cache.claims);
        return shown(history.claims.read(), CLAIM_STEP_SECONDS);
      },
    },
    {
      method: "GET",
      path: "/api/v1/pools/:name/history",
      access: serviceView,
      summary: "A pool in the last hour: ready pods, hits, misses and refills",
      description: "Each replica records its own history in memory since its start.",
      answer: "PoolHistory",
      errors: [404, 503],
      handle(request) {
        const name = pathParam(request, "name", poolNameRule);
        const kinds = [cache.claims, cache.pods, ...(cache.pools === undefined ? [] : [cache.pools])];
        requireFresh(...kinds);
        if (cache.pools?.store.get({ namespace, name }) === undefined)
          throw new HttpError(404, `pool ${quote(name)} does not exist`);
        return shown(history.pools.read(name), POOL_STEP_SECONDS);
      },
    },
  ];
}
