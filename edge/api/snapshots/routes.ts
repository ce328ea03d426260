import { quote } from "../../../crds/quote.ts";
import { pattern } from "../../../crds/schema/patterns.ts";
import { archiveDigits, type SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { type KeptSnapshots, StoreConflict } from "../../../crds/snapshots/snapshot-store.ts";
import { tenantUse } from "../../access/route-access.ts";
import { HttpError } from "../../http/http-error.ts";
import { pathParam, queryText, tenantIdRule, workloadNameRule } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import type { ApiRoute } from "../api-route.ts";
import { doneSchema } from "../openapi/schemas.ts";
import { archiveRoute } from "./archive.ts";
import { noteErasure, refuseWhileSaved } from "./claims-of-snapshot.ts";
import { diffRoute } from "./diff.ts";
import { savedFileRoutes } from "./files.ts";
import { snapshotListRoutes } from "./list.ts";
import { limitSavedFiles } from "./saved-files.ts";
import { askStore, noSnapshot, type SnapshotServices, storeState } from "./store.ts";
import { digitsRule } from "./versions.ts";

/** Lists of snapshots, what is read of one, and `DELETE /api/v1/tenants/{id}/snapshots/{workload}`. */
export function snapshotRoutes(services: SnapshotServices): ApiRoute[] {
  const withSavedFiles = limitSavedFiles();
  return [
    ...snapshotListRoutes(services),
    archiveRoute(services, withSavedFiles),
    ...savedFileRoutes(services, withSavedFiles),
    diffRoute(services, withSavedFiles),
    {
      method: "DELETE",
      path: "/api/v1/tenants/:id/snapshots/:workload",
      access: tenantUse,
      summary: "Delete a tenant's saved files with all versions",
      description:
        "A claim on the workload keeps its running files, and its next release saves them again; a later claim with `resume` finds nothing. The response is 409 while a release is in progress, or has failed and is being retried, since it would write the snapshot again; and if something was saved during this call. The workload may be deleted already.",
      query: {
        newest: {
          ...{ type: "string", pattern: pattern.archiveVersion },
          description:
            "SHA-256 of the newest version that the caller knows, or its first 16 digits: if another version is the newest, the response is 409 and nothing is deleted.",
        },
      },
      answer: doneSchema("deleted", "tenantId", "workload"),
      errors: [404, 409, 503, 504],
      async handle(request, { clientGone, mayBeSilent }) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const workload = pathParam(request, "workload", workloadNameRule);
        const newest = queryText(request, "newest", digitsRule);
        mayBeSilent?.();
        const key = { tenantId, workloadRef: workload };
        await deleteSnapshot(key, services, { newest, clientGone: clientGone ?? request.signal });
        return jsonResponse({ status: "deleted", tenantId, workload });
      },
    },
  ];
}

/**
 * Deletes a tenant's archive if unchanged, and the remains of an interrupted save.
 *
 * @param options.newest digits of the version that must be the newest; it is deleted with the older ones
 * @param options.keeps whether what is there stays instead. @default never
 * @throws HttpError 404 if there is none, 409 if another version is the newest; as {@link refuseWhileSaved} does while
 * a   release writes it, and as {@link askStore} does
 */
export async function deleteSnapshot(
  key: SnapshotKey,
  services: SnapshotServices,
  {
    newest,
    clientGone,
    keeps = () => false,
  }: {
    newest?: string | undefined;
    clientGone: AbortSignal | undefined;
    keeps?: (present: KeptSnapshots) => boolean;
  },
): Promise<void> {
  await refuseWhileSaved(key, services);
  const { tenantId, workloadRef } = key;
  const none = noSnapshot(key);
  if ((await storeState(services)) === "none") throw none;
  const ask = { ...services, clientGone };
  try {
    const present = await askStore(({ archives }, call) => archives.look(key, call), ask);
    if (newest !== undefined && !present.newest?.sha256.startsWith(archiveDigits(newest))) {
      throw new StoreConflict("another version is the newest");
    }
    if (keeps(present)) return;
    await noteErasure(key, services);
    // Keep what a release has saved since: it may be the only copy of the session's files.
    const replaces = present.revision;
    if (!(await askStore(({ archives }, call) => archives.delete(key, { ...call, replaces }), ask))) throw none;
  } catch (error) {
    if (!(error instanceof StoreConflict)) throw error;
    const which = newest === undefined ? "another one now" : `no longer ${archiveDigits(newest)}`;
    throw new HttpError(
      409,
      `the newest saved version of workload ${quote(workloadRef)} of tenant ${quote(tenantId)} is ${which}: list the versions again`,
    );
  }
}
