import type { ApiRoute } from "../api-route.ts";
import { archiveRoute } from "./archive.ts";
import { diffRoute } from "./diff.ts";
import { savedFileRoutes } from "./files.ts";
import { limitSavedFiles } from "./saved-files.ts";
import type { SnapshotServices } from "./store.ts";

/** The routes that read what a version of a snapshot holds. */
export function savedRoutes(services: SnapshotServices): ApiRoute[] {
  const withSavedFiles = limitSavedFiles();
  return [
    archiveRoute(services, withSavedFiles),
    ...savedFileRoutes(services, withSavedFiles),
    diffRoute(services, withSavedFiles),
  ];
}
