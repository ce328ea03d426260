import type { ClaimPhase } from "../../crds/claim.ts";
import type { PodPhase } from "../../crds/kubernetes.ts";
import type { ClusterView } from "../cluster/cluster-cache.ts";
import { requireContact } from "../cluster/require-contact.ts";
import { jsonResponse } from "../http/json-response.ts";
import type { Route } from "../http/route.ts";
import { countByPhase } from "./count-by-phase.ts";

const podPhases: readonly PodPhase[] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];
const claimPhases: readonly ClaimPhase[] = ["Pending", "Active", "Releasing", "Released", "ReleaseFailed", "Error"];

/** `GET /api/v1/stats`: instances and claims by phase. */
export function statsRoute({ claims, pods }: Pick<ClusterView, "claims" | "pods">): Route {
  return {
    method: "GET",
    path: "/api/v1/stats",
    public: true,
    handle() {
      requireContact(claims, pods);
      return jsonResponse({
        instances: countByPhase(pods.store, podPhases),
        claims: countByPhase(claims.store, claimPhases),
      });
    },
  };
}
