import type { Claim } from "../../../crds/claim.ts";
import { claimKey, hasKey } from "../../../crds/claims/claim-key.ts";
import { ifFound } from "../../../crds/client/api-error.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { claimName, hashedClaimName } from "../../../crds/names.ts";
import { pattern } from "../../../crds/schema/patterns.ts";
import {
  type ListedSnapshot,
  parseSnapshotList,
  type UnrecordedArchive,
} from "../../../crds/snapshots/parse-snapshot-list.ts";
import { type SnapshotKey, snapshotPath } from "../../../crds/snapshots/snapshot-key.ts";
import { archiveDigits, NO_ARCHIVE, storeScripts } from "../../../crds/snapshots/store-scripts.ts";
import { whenAborted } from "../../../crds/waits.ts";
import { createSharedCall } from "../../cluster/shared-call.ts";
import { HttpError, quote } from "../../http/http-error.ts";
import { pathParam, queryFlag, queryText, tenantIdRule, workloadNameRule } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import { type ApiRoute, flagSchema } from "../api-route.ts";
import { doneSchema, tenantIdSchema } from "../openapi/schemas.ts";
import { readWorkload } from "../workloads.ts";
import { runInStore, type SnapshotServices, storeState, volumeFailure } from "./archive-store.ts";

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
        "A claim on the workload keeps its running files, and its next release saves them anew; a later claim with `resume` finds nothing. While a release is under way, or has failed and is tried again, the answer is 409, since that would write the snapshot anew. The workload need not exist any more.",
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
        const newest = queryText(request, "newest", newestRule);
        mayBeSilent?.();
        const key = { tenantId, workloadRef: workload };
        await deleteSnapshot(key, services, { newest, clientGone: clientGone ?? request.signal });
        return jsonResponse({ status: "deleted", tenantId, workload });
      },
    },
  ];
}

const archiveVersion = new RegExp(pattern.archiveVersion);
const newestRule = {
  accepts: (value: string): boolean => archiveVersion.test(value),
  says: "a version is a SHA-256 in lower-case hexadecimal digits, or the first 16 of them",
} as const;

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

const MAX_TRIES = 3;

/**
 * Every archive on the snapshots volume, by tenant, then workload: one command in the helper pod, however many there
 * are. A list that comes without its end is asked for again, and never passed on.
 *
 * @param options.versions whether older versions are listed too, after the newest
 * @param options.looks called before the volume is looked at
 * @throws HttpError 503 where the volume cannot be read or the list never comes whole; as {@link runInStore} does
 */
async function listSnapshots(
  services: SnapshotServices,
  { looks, versions }: { looks: () => void; versions: boolean },
): Promise<SnapshotRecord[]> {
  if ((await storeState(services)) === "none") return [];
  looks();
  const { kubectl, clock, namespace } = services;
  const command = { script: storeScripts.list, words: [".", versions ? "4" : "2"], namespace };
  for (let tries = 1; tries <= MAX_TRIES; tries += 1) {
    const answer = await runInStore(command, { kubectl, clock, clientGone: undefined });
    if (answer.exitCode !== 0) throw volumeFailure(answer);
    const list = parseSnapshotList(answer.stdout);
    if (list !== undefined) return [...list.snapshots, ...list.unrecorded].map(snapshotRecord).sort(bySnapshotKey);
  }
  throw new HttpError(503, `the list of snapshots came without its end, ${MAX_TRIES} times; try again`, {
    headers: { "retry-after": "1" },
  });
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
}

/** Shows an archive as the REST API does. */
function snapshotRecord(archive: ListedSnapshot | UnrecordedArchive): SnapshotRecord {
  const { tenantId, workloadRef, sizeBytes, version } = archive;
  const place = { tenantId, workloadRef, ...(version !== undefined && { version }) };
  return {
    tenantId,
    workloadRef,
    path: snapshotPath(place),
    ...(version !== undefined && { version }),
    sizeBytes,
    ...("sha256" in archive && { sha256: archive.sha256 }),
    createdAt: "createdAt" in archive ? archive.createdAt : archive.usedAt,
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
 * Erases a tenant's archive, and what an interrupted save left of it.
 *
 * @param options.newest the digits of the only one that may be erased as the newest, with the older ones
 * @throws HttpError 404 where there is none, 409 where another is the newest one; as {@link refuseWhileSaved} does
 * while a release writes it; 503 where the
 *   volume cannot be written; as {@link runInStore} does
 */
async function deleteSnapshot(
  key: SnapshotKey,
  services: SnapshotServices,
  { newest, clientGone }: { newest: string | undefined; clientGone: AbortSignal | undefined },
): Promise<void> {
  await refuseWhileSaved(key, services);
  const { tenantId, workloadRef } = key;
  const none = new HttpError(
    404,
    `tenant ${quote(tenantId)} has no snapshot of workload ${quote(workloadRef)}: ${snapshotPath(key)} does not exist`,
  );
  if ((await storeState(services)) === "none") throw none;
  const { kubectl, clock, namespace } = services;
  const command = {
    script: storeScripts.delete,
    words: [tenantId, workloadRef, archiveDigits(newest ?? ""), ""],
    namespace,
  };
  const answer = await runInStore(command, { kubectl, clock, clientGone });
  if (answer.exitCode === NO_ARCHIVE && newest !== undefined) {
    throw new HttpError(
      409,
      `the newest version of workload ${quote(workloadRef)} that is saved of tenant ${quote(tenantId)} is not ${archiveDigits(newest)} any more: list the versions again`,
    );
  }
  if (answer.exitCode === NO_ARCHIVE) throw none;
  if (answer.exitCode !== 0 || answer.stdout !== "deleted\n") throw volumeFailure(answer);
}

/**
 * Refuses while a release of the key writes its archive, or will, since what is deleted now would be there again.
 * Claims are read from the cluster: the watch may not have seen yet that one is released.
 *
 * @throws HttpError 409 that says what to do
 */
async function refuseWhileSaved(
  key: SnapshotKey,
  services: Pick<SnapshotServices, "client" | "namespace" | "cache">,
): Promise<void> {
  const { client, namespace, cache } = services;
  const known = [...cache.claims.store.by("key", claimKey(key))].map(({ metadata }) => metadata.name);
  const names = new Set([claimName(key), hashedClaimName(key), ...known]);
  const found = await Promise.all([...names].map(get));
  for (const claim of found) {
    if (claim === undefined || !hasKey(claim, key)) continue;
    const { tenantId, workloadRef } = key;
    const release = `the release of workload ${quote(workloadRef)} by tenant ${quote(tenantId)}`;
    const { name, deletionTimestamp } = claim.metadata;
    const phase = claim.status?.phase;
    if (phase === "ReleaseFailed") {
      const command = `kubectl -n ${namespace} annotate tenancyclaim ${name} ${annotation.discard}=true`;
      throw new HttpError(
        409,
        `${release} failed and is tried again, which would write this snapshot anew; give its files up with ${command}, then delete again`,
      );
    }
    if (phase === "Releasing" || (deletionTimestamp !== undefined && phase !== "Released")) {
      const wait = `POST /api/v1/tenants/${tenantId}/release?wait=true`;
      throw new HttpError(
        409,
        `${release} is under way and may write this snapshot anew; delete again when it has ended, which ${wait} waits for`,
      );
    }
  }

  function get(name: string): Promise<Claim | undefined> {
    return ifFound(client.get(claims, { namespace, name }));
  }
}
