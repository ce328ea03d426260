import type { ClaimPhase } from "../../crds/claim.ts";
import type { PodPhase } from "../../crds/kubernetes.ts";
import type { MostKept } from "../../crds/snapshots/snapshot-store.ts";
import { requireFresh } from "../cluster/freshness.ts";
import type { ClusterCache } from "../cluster/watch-cluster.ts";
import { jsonResponse } from "../http/response.ts";
import type { ApiRoute } from "./api-route.ts";
import type { SnapshotTotals } from "./snapshots/usage.ts";

const podPhases: readonly PodPhase[] = ["Pending", "Running", "Succeeded", "Failed", "Unknown"];
const claimPhases: readonly ClaimPhase[] = ["Pending", "Active", "Releasing", "Released", "ReleaseFailed", "Error"];

/** `GET /api/v1/stats`: instances and claims by phase, and the storage used by snapshots and its limits. */
export function statsRoute(
  { claims, pods }: Pick<ClusterCache, "claims" | "pods">,
  options: {
    snapshotTotals: () => Promise<SnapshotTotals | undefined>;
    snapshotLimits: Pick<MostKept, "tenantBytes" | "workloadBytes">;
  },
): ApiRoute {
  const { tenantBytes, workloadBytes } = options.snapshotLimits;
  const snapshotLimits = {
    ...(tenantBytes !== undefined && { tenantBytes }),
    ...(workloadBytes !== undefined && { workloadBytes }),
  };
  return {
    method: "GET",
    path: "/api/v1/stats",
    summary: "Instances and claims by phase, and the storage used by snapshots and its limits",
    answer: "Stats",
    errors: [503],
    public: true,
    async handle() {
      requireFresh(claims, pods);
      const snapshots = await options.snapshotTotals();
      return jsonResponse({
        instances: countByPhase(pods.store, podPhases),
        claims: countByPhase(claims.store, claimPhases),
        ...(snapshots !== undefined && { snapshots }),
        ...(Object.keys(snapshotLimits).length > 0 && { snapshotLimits }),
      });
    },
  };
}

/** An index that counts by phase. */
interface Phased {
  readonly size: number;
  by(index: "phase", phase: string): { readonly size: number };
}

/**
 * Number of objects, in total and in each phase that occurs: read from the index, so that ten thousand objects cost no
 * more than ten, since the route requires no key.
 */
function countByPhase(store: Phased, phases: readonly string[]): { total: number; byPhase: Record<string, number> } {
  const byPhase: Record<string, number> = {};
  for (const phase of phases) {
    const { size } = store.by("phase", phase);
    if (size > 0) byPhase[phase] = size;
  }
  return { total: store.size, byPhase };
}

/** `GET /api/v1/health`: the process is alive, whatever the state of the cluster. */
export const healthRoute: ApiRoute = {
  method: "GET",
  path: "/api/v1/health",
  summary: "Whether the process is alive",
  answer: "Health",
  public: true,
  handle: () => jsonResponse({ status: "ok" }),
};
