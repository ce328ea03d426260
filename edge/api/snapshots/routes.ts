import { pattern } from "../../../crds/schema/patterns.ts";
import { archiveDigits, type SnapshotKey, snapshotPath } from "../../../crds/snapshots/snapshot-key.ts";
import { type KeptAs, StoreConflict, type StoreEntry } from "../../../crds/snapshots/snapshot-store.ts";
import { whenAborted } from "../../../crds/waits.ts";
import { createSharedCall } from "../../cluster/shared-call.ts";
import { HttpError, quote } from "../../http/http-error.ts";
import { pathParam, queryFlag, queryText, tenantIdRule, workloadNameRule } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import { type ApiRoute, flagSchema } from "../api-route.ts";
import { doneSchema, tenantIdSchema } from "../openapi/schemas.ts";
import { readWorkload } from "../workloads.ts";
import { noteErasure, refuseWhileSaved } from "./claims-of-snapshot.ts";
import { askStore, noSnapshot, type SnapshotServices, storeState } from "./store.ts";
import { versionRule } from "./versions.ts";

/**
 * `GET /api/v1/snapshots` and `GET /api/v1/workloads/{name}/snapshots`, which share one listing at a time
 * (`?versions=true` another), and `DELETE /api/v1/tenants/{id}/snapshots/{workload}`, which also erases what a deleted
 * workload left.
 */
export function snapshotRoutes(services: SnapshotServices): ApiRoute[] {
  const newest = createSharedCall((looks) => listSnapshots(services, { looks, versions: false }));
  const every = createSharedCall((looks) => listSnapshots(services, { looks, versions: true }));

  return [
    {
      method: "GET",
      path: "/api/v1/snapshots",
      summary: "All that was saved of tenants' files",
      description: "By tenant, then workload, also of workloads that are deleted.",
      query: {
        versions: flagSchema("Whether older versions are listed too."),
        tenant: { ...tenantIdSchema, description: "Only this tenant's." },
      },
      answer: ["Snapshot"],
      errors: [503, 504],
      async handle(request, { clientGone, mayBeSilent }) {
        const list = queryFlag(request, "versions") ? every : newest;
        const tenant = queryText(request, "tenant", tenantIdRule);
        mayBeSilent?.();
        const all = await unlessGone(list(), clientGone ?? request.signal);
        return jsonResponse(tenant === undefined ? all : all.filter(({ tenantId }) => tenantId === tenant));
      },
    },
    {
      method: "GET",
      path: "/api/v1/workloads/:name/snapshots",
      summary: "What was saved of tenants' files under a workload",
      description: "By tenant. What is left of a deleted workload is in the list of all.",
      query: { versions: flagSchema("Whether older versions are listed too.") },
      answer: ["Snapshot"],
      errors: [404, 503, 504],
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

/**
 * Every archive in the store, by tenant, then workload: one request to it, however many there are.
 *
 * @param options.versions whether older versions are listed too, after the newest
 * @param options.looks called before the store is looked at
 * @throws HttpError as {@link askStore} and {@link storeState} do
 */
export async function listSnapshots(
  services: SnapshotServices,
  { looks, versions }: { looks: () => void; versions: boolean },
): Promise<SnapshotRecord[]> {
  if ((await storeState(services)) === "none") return [];
  looks();
  const ask = { ...services, clientGone: undefined };
  const entries = await askStore(({ archives }, call) => archives.list({ versions }, call), ask);
  return entries.map(snapshotRecord).sort(bySnapshotKey);
}

/** The snapshot record, with what is known of the archive. */
interface SnapshotRecord {
  tenantId: string;
  workloadRef: string;
  /** On the snapshots volume. */
  path: string;
  /** Of one that is not the newest: what a claim names it by. */
  version?: string;
  sizeBytes: number;
  /** In hexadecimal digits; absent where what was recorded beside the archive is lost or does not fit it. */
  sha256?: string;
  /** ISO 8601. */
  createdAt: string;
  /** Of one that is not the newest. */
  kept?: KeptAs;
}

/** Shows an archive as the REST API does. */
function snapshotRecord({
  tenantId,
  workloadRef,
  sizeBytes,
  version,
  kept,
  usedAt,
  metadata,
}: StoreEntry): SnapshotRecord {
  return {
    tenantId,
    workloadRef,
    path: snapshotPath({ tenantId, workloadRef, ...(version !== undefined && { version }) }),
    ...(version !== undefined && { version }),
    sizeBytes,
    ...(metadata !== undefined && { sha256: metadata.sha256 }),
    createdAt: metadata?.createdAt ?? usedAt,
    ...(kept !== undefined && { kept }),
  };
}

/** The order of lists: by tenant, then by workload, the newest first. */
function bySnapshotKey(a: SnapshotRecord, b: SnapshotRecord): number {
  if (a.tenantId !== b.tenantId) return a.tenantId < b.tenantId ? -1 : 1;
  if (a.workloadRef !== b.workloadRef) return a.workloadRef < b.workloadRef ? -1 : 1;
  if ((a.version === undefined) !== (b.version === undefined)) return a.version === undefined ? -1 : 1;
  return a.createdAt > b.createdAt ? -1 : 1;
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
