import type { ClusterView } from "../cluster-view.ts";
import { jsonResponse } from "../json-response.ts";
import { requireContact } from "../require-contact.ts";
import type { Route } from "../route.ts";
import { countByPhase } from "./count-by-phase.ts";

/**
 * `GET /api/v1/stats`: instances and claims by phase (spec.md, section 4.1).
 *
 * Counted from the stores on request: 10 000 pods take a fifth of a millisecond, less than keeping counts right would save.
 */
export function statsRoute({ claims, pods }: Pick<ClusterView, "claims" | "pods">): Route {
  return {
    method: "GET",
    path: "/api/v1/stats",
    public: true,
    handle() {
      requireContact(claims, pods);
      return jsonResponse({ instances: countByPhase(pods.store), claims: countByPhase(claims.store) });
    },
  };
}
