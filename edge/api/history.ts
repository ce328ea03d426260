import { requireFresh } from "../cluster/freshness.ts";
import type { ClusterCache } from "../cluster/watch-cluster.ts";
import { CLAIM_STEP_SECONDS, type ClaimHistory } from "../history/claim-history.ts";
import { jsonResponse } from "../http/response.ts";
import type { ApiRoute } from "./api-route.ts";

/** What the routes of the history work with. */
export interface HistoryServices {
  readonly history: { readonly claims: Pick<ClaimHistory, "read"> };
  readonly cache: Pick<ClusterCache, "claims">;
  /** A word for this process. */
  readonly instance: string;
}

/** The routes of what this process remembers of the last hour. */
export function historyRoutes({ history, cache, instance }: HistoryServices): ApiRoute[] {
  return [
    {
      method: "GET",
      path: "/api/v1/history/claims",
      summary: "Claims of the last hour: how many, how fast, from where, and why they failed",
      description: "Kept in memory by each replica for itself since its start.",
      answer: "ClaimHistory",
      errors: [503],
      handle() {
        requireFresh(cache.claims);
        const { from, ...hour } = history.claims.read();
        return jsonResponse({
          since: new Date(from).toISOString(),
          replica: instance,
          stepSeconds: CLAIM_STEP_SECONDS,
          ...hour,
        });
      },
    },
  ];
}
