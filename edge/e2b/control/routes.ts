import type { Route } from "../../http/router.ts";
import type { ControlServices } from "./control-services.ts";
import { createRoutes } from "./create.ts";
import { forkRoute } from "./fork.ts";
import { killRoute } from "./kill.ts";
import { lifetimeRoutes } from "./lifetime.ts";
import { listRoutes } from "./lists/list.ts";
import { logRoutes } from "./logs.ts";
import { metricsRoute } from "./metrics.ts";
import { refusedRoutes } from "./not-done.ts";
import { snapshotRoutes } from "./templates/snapshots.ts";
import { templateRoutes } from "./templates/templates.ts";

/** The calls on sandboxes and templates that E2B's SDKs make, below `/e2b`. */
export function controlRoutes(services: ControlServices): Route[] {
  return [
    ...createRoutes(services),
    ...listRoutes(services),
    killRoute(services),
    ...lifetimeRoutes(services),
    forkRoute(services),
    ...snapshotRoutes(services),
    ...logRoutes(services),
    metricsRoute(services),
    ...templateRoutes(services),
    ...refusedRoutes,
  ];
}
