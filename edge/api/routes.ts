import type { ClusterCache } from "../cluster/watch-cluster.ts";
import type { Access } from "../http/access.ts";
import type { PageCheck } from "../http/page-check.ts";
import type { ApiRoute } from "./api-route.ts";
import { type AuditServices, auditRoute } from "./audit.ts";
import { type BuildServices, buildRoutes } from "./builds/routes.ts";
import type { ClaimServices } from "./claims/claim-services.ts";
import { readClaimRoutes } from "./claims/read-claims.ts";
import { claimRoutes } from "./claims/routes.ts";
import { debugRoute } from "./debug.ts";
import { type DeliveryServices, deliveryRoutes } from "./deliveries.ts";
import type { EventHub } from "./events/event-hub.ts";
import { eventsRoute } from "./events/routes.ts";
import { type HistoryServices, historyRoutes } from "./history.ts";
import { type AttachServices, attachRoutes } from "./inside/attach-routes.ts";
import { createInsidePlaces } from "./inside/call-inside.ts";
import { fileRoutes } from "./inside/file-routes.ts";
import { createUnpackFolder } from "./inside/folder-unpack.ts";
import { processRoutes } from "./inside/process-routes.ts";
import type { InstanceServices } from "./instances/instance.ts";
import { instanceRoutes } from "./instances/routes.ts";
import { type KeyServices, keyRoutes } from "./keys.ts";
import { type LimitServices, limitRoutes } from "./limits.ts";
import { type LinkServices, linkRoutes } from "./links.ts";
import { openApiRoutes } from "./openapi/routes.ts";
import { poolRoutes } from "./pools.ts";
import { type SessionServices, sessionRoutes } from "./session.ts";
import { checkpointRoutes } from "./snapshots/checkpoints.ts";
import { snapshotRoutes } from "./snapshots/routes.ts";
import { hasArchive } from "./snapshots/store.ts";
import { type UploadServices, uploadRoutes } from "./snapshots/upload.ts";
import { createSnapshotTotals } from "./snapshots/usage.ts";
import { versionOf, versionRoutes } from "./snapshots/versions.ts";
import { healthRoute, statsRoute } from "./system.ts";
import { tenantSummaryRoute } from "./tenant-summaries.ts";
import { tenantRoutes } from "./tenants.ts";
import { triggerRoutes } from "./triggers.ts";
import { type UsageServices, usageRoutes } from "./usage/routes.ts";
import { workloadRoutes } from "./workloads.ts";

export type ApiServices = ClaimServices &
  InstanceServices &
  AttachServices &
  BuildServices &
  SessionServices &
  HistoryServices &
  DeliveryServices &
  LinkServices &
  KeyServices &
  LimitServices &
  AuditServices &
  UploadServices &
  UsageServices & {
    readonly cache: ClusterCache;
    readonly events: EventHub;
    /** Throws if a page of another site made the request; `/ws` does not serve those. */
    readonly checkPage: PageCheck;
    /** Whether `/ws` requires the key too. @default false */
    readonly requireKey?: boolean;
    /** Throws if a request has no key. Undefined if no key is set. */
    readonly authenticate?: Access["authenticate"];
    /** Whether TENANCY_API_KEY is set. @default false */
    readonly asksForKey?: boolean;
  };

/** The REST API's route table, most frequent first. */
export function apiRoutes(services: ApiServices): ApiRoute[] {
  const unpackFolder = createUnpackFolder();
  const routes = [
    healthRoute,
    ...claimRoutes({
      ...services,
      hasArchive: (key, clientGone) => hasArchive(key, services, clientGone),
      versionOf: (key, version, clientGone) => versionOf(key, version, { ...services, clientGone }),
    }),
    ...instanceRoutes(services),
    ...createInsidePlaces(services).flatMap((place) => [
      ...processRoutes(place, services),
      ...attachRoutes(place, services),
      ...fileRoutes(place, { ...services, unpackFolder }),
    ]),
    ...tenantRoutes(services.cache),
    ...limitRoutes(services),
    tenantSummaryRoute(services),
    ...readClaimRoutes(services),
    ...linkRoutes(services),
    statsRoute(services.cache, {
      snapshotTotals: createSnapshotTotals(services),
      snapshotLimits: services.most,
    }),
    ...workloadRoutes(services),
    ...poolRoutes(services),
    ...snapshotRoutes(services),
    ...versionRoutes(services),
    ...checkpointRoutes(services),
    ...uploadRoutes(services),
    ...buildRoutes(services),
    ...triggerRoutes(services),
    ...deliveryRoutes(services),
    debugRoute(services),
    eventsRoute(services),
    ...sessionRoutes(services),
    ...keyRoutes(services),
    auditRoute(services),
    ...historyRoutes(services),
    ...usageRoutes(services),
  ];
  return [...routes, ...openApiRoutes(routes, { asksForKey: services.asksForKey === true })];
}
