import { claimRoutes } from "./claims/claim-routes.ts";
import type { ClaimServices } from "./claims/claim-services.ts";
import type { ClusterView } from "./cluster-view.ts";
import { debugRoute } from "./debug/debug-route.ts";
import type { EventHub } from "./events/event-hub.ts";
import { eventsRoute } from "./events/events-route.ts";
import { instanceRoutes } from "./instances/instance-routes.ts";
import type { InstanceServices } from "./instances/instance-services.ts";
import { openApiRoutes } from "./openapi/openapi-routes.ts";
import type { Route } from "./route.ts";
import { hasArchive } from "./snapshots/has-archive.ts";
import { snapshotRoutes } from "./snapshots/snapshot-routes.ts";
import { healthRoute } from "./system/health-route.ts";
import { statsRoute } from "./system/stats-route.ts";
import { tenantRoutes } from "./tenants/tenant-routes.ts";
import { triggerRoutes } from "./triggers/trigger-routes.ts";
import { workloadRoutes } from "./workloads/workload-routes.ts";

/** What all routes of the REST API work with. */
export type ApiServices = ClaimServices &
  InstanceServices & {
    readonly view: ClusterView;
    readonly events: EventHub;
    /** Throws where a page of another site, which `/ws` is not for, made the request. */
    readonly checkPage: (request: Request) => void;
    /** Whether `/ws` asks for the key too. @default false */
    readonly requireKey?: boolean;
    /** Whether TENANCY_API_KEY is set. @default false */
    readonly asksForKey?: boolean;
  };

/** The REST API's route table, the most called first. */
export function apiRoutes(services: ApiServices): Route[] {
  const routes = [
    healthRoute,
    ...claimRoutes({ ...services, hasArchive: (pair, clientGone) => hasArchive(pair, services, clientGone) }),
    ...instanceRoutes(services),
    ...tenantRoutes(services.view),
    statsRoute(services.view),
    ...workloadRoutes(services),
    ...snapshotRoutes(services),
    ...triggerRoutes(services),
    debugRoute(services),
    eventsRoute(services),
  ];
  return [...routes, ...openApiRoutes(routes, { asksForKey: services.asksForKey === true })];
}
