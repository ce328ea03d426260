import { claimRoutes } from "./claims/claim-routes.ts";
import type { ClaimServices } from "./claims/claim-services.ts";
import type { ClusterView } from "./cluster-view.ts";
import type { Route } from "./route.ts";
import { snapshotRoutes } from "./snapshots/snapshot-routes.ts";
import { healthRoute } from "./system/health-route.ts";
import { statsRoute } from "./system/stats-route.ts";
import { tenantRoutes } from "./tenants/tenant-routes.ts";
import { workloadRoutes } from "./workloads/workload-routes.ts";

/** The REST API's route table, the most called first (spec.md, section 4). */
export function apiRoutes(services: ClaimServices & { readonly view: ClusterView }): Route[] {
  return [
    healthRoute,
    ...claimRoutes(services),
    ...tenantRoutes(services.view),
    statsRoute(services.view),
    ...workloadRoutes(services),
    ...snapshotRoutes(services),
  ];
}
