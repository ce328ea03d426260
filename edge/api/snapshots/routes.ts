import { createSharedCall } from "../../cluster/shared-call.ts";
import { HttpError } from "../../http/http-error.ts";
import { jsonResponse } from "../../http/json-response.ts";
import { pathParam } from "../../http/path-param.ts";
import { queryFlag } from "../../http/query-flag.ts";
import type { Route } from "../../http/route.ts";
import { whenAborted } from "../../kubectl/when-aborted.ts";
import { tenantIdRule } from "../name-rules.ts";
import { readWorkload } from "../read-workload.ts";
import { workloadNameRule } from "../workload-name-rule.ts";
import { deleteSnapshot } from "./delete-snapshot.ts";
import { listSnapshots } from "./list-snapshots.ts";
import type { SnapshotRecord } from "./snapshot-record.ts";
import type { SnapshotServices } from "./snapshot-services.ts";

/**
 * `GET /api/v1/snapshots` and `GET /api/v1/workloads/{name}/snapshots`, which share one listing at a
 * time (`?versions=true` another), and `DELETE /api/v1/tenants/{id}/snapshots/{workload}`, which also erases what a deleted workload left.
 */
export function snapshotRoutes(services: SnapshotServices): Route[] {
  const newest = createSharedCall((looks) => listSnapshots(services, { looks, versions: false }));
  const every = createSharedCall((looks) => listSnapshots(services, { looks, versions: true }));

  return [
    {
      method: "GET",
      path: "/api/v1/snapshots",
      query: ["versions"],
      async handle(request, { clientGone, mayBeSilent }) {
        const list = queryFlag(request, "versions") ? every : newest;
        mayBeSilent?.();
        return jsonResponse(await unlessGone(list(), clientGone ?? request.signal));
      },
    },
    {
      method: "GET",
      path: "/api/v1/workloads/:name/snapshots",
      query: ["versions"],
      async handle(request, { clientGone, mayBeSilent }) {
        const name = pathParam(request, "name", workloadNameRule);
        const list = queryFlag(request, "versions") ? every : newest;
        await readWorkload(name, services);
        mayBeSilent?.();
        const all = await unlessGone(list(), clientGone ?? request.signal);
        return jsonResponse(all.filter(({ workloadRef }) => workloadRef === name));
      },
    },
    {
      method: "DELETE",
      path: "/api/v1/tenants/:id/snapshots/:workload",
      async handle(request, { clientGone, mayBeSilent }) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const workload = pathParam(request, "workload", workloadNameRule);
        mayBeSilent?.();
        const key = { tenantId, workloadRef: workload };
        await deleteSnapshot(key, services, { clientGone: clientGone ?? request.signal });
        return jsonResponse({ status: "deleted", tenantId, workload });
      },
    },
  ];
}

/** A client that goes leaves the listing to those who share it. */
async function unlessGone(listing: Promise<SnapshotRecord[]>, clientGone: AbortSignal): Promise<SnapshotRecord[]> {
  const gone = whenAborted([clientGone]);
  try {
    const listed = await Promise.race([listing, gone.promise]);
    if (listed === undefined) throw new HttpError(499, "the client went away");
    return listed;
  } finally {
    gone.close();
  }
}
