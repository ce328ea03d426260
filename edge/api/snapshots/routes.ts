import { pattern } from "../../../crds/schema/patterns.ts";
import { archiveDigits, type SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { StoreConflict } from "../../../crds/snapshots/snapshot-store.ts";
import { HttpError, quote } from "../../http/http-error.ts";
import { pathParam, queryText, tenantIdRule, workloadNameRule } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import type { ApiRoute } from "../api-route.ts";
import { doneSchema } from "../openapi/schemas.ts";
import { noteErasure, refuseWhileSaved } from "./claims-of-snapshot.ts";
import { snapshotListRoutes } from "./list.ts";
import { askStore, noSnapshot, type SnapshotServices, storeState } from "./store.ts";
import { versionRule } from "./versions.ts";

/** `GET /api/v1/snapshots` and what belongs to it, and `DELETE /api/v1/tenants/{id}/snapshots/{workload}`. */
export function snapshotRoutes(services: SnapshotServices): ApiRoute[] {
  return [
    ...snapshotListRoutes(services),
    {
      method: "DELETE",
      path: "/api/v1/tenants/:id/snapshots/:workload",
      summary: "Erase what was saved of a tenant's files, with all versions",
      description:
        "A claim on the workload keeps its running files, and its next release saves them anew; a later claim with `resume` finds nothing. While a release is under way, or has failed and is tried again, the answer is 409, since that would write the snapshot anew; as it is where something was saved while this call was under way. The workload need not exist any more.",
      query: {
        newest: {
          ...{ type: "string", pattern: pattern.archiveVersion },
          description:
            "SHA-256 of the newest version that was looked at, or its first 16 digits: the answer is 409, and nothing is erased, where that is not the newest one.",
        },
      },
      answer: doneSchema("deleted", "tenantId", "workload"),
      errors: [404, 409, 503, 504],
      async handle(request, { clientGone, mayBeSilent }) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const workload = pathParam(request, "workload", workloadNameRule);
        const newest = queryText(request, "newest", versionRule);
        mayBeSilent?.();
        const key = { tenantId, workloadRef: workload };
        await deleteSnapshot(key, services, { newest, clientGone: clientGone ?? request.signal });
        return jsonResponse({ status: "deleted", tenantId, workload });
      },
    },
  ];
}

/**
 * Erases a tenant's archive as it was looked at, and what an interrupted save left of it.
 *
 * @param options.newest the digits of the only one that may be erased as the newest, with the older ones
 * @throws HttpError 404 where there is none, 409 where another is the newest one; as {@link refuseWhileSaved} does
 *   while a release writes it, and as {@link askStore} does
 */
async function deleteSnapshot(
  key: SnapshotKey,
  services: SnapshotServices,
  { newest, clientGone }: { newest: string | undefined; clientGone: AbortSignal | undefined },
): Promise<void> {
  await refuseWhileSaved(key, services);
  const { tenantId, workloadRef } = key;
  const none = noSnapshot(key);
  if ((await storeState(services)) === "none") throw none;
  const ask = { ...services, clientGone };
  try {
    const present = await askStore(({ archives }, call) => archives.look(key, call), ask);
    if (newest !== undefined && !present.newest?.sha256.startsWith(archiveDigits(newest))) {
      throw new StoreConflict("another is the newest");
    }
    await noteErasure(key, services);
    // Not what a release has saved since, which may be all that is left of the session's files.
    const replaces = present.revision;
    if (!(await askStore(({ archives }, call) => archives.delete(key, { ...call, replaces }), ask))) throw none;
  } catch (error) {
    if (!(error instanceof StoreConflict)) throw error;
    const which = newest === undefined ? "another by now" : `not ${archiveDigits(newest)} any more`;
    throw new HttpError(
      409,
      `the newest version of workload ${quote(workloadRef)} that is saved of tenant ${quote(tenantId)} is ${which}: list the versions again`,
    );
  }
}
