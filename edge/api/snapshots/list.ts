import { pattern } from "../../../crds/schema/patterns.ts";
import { checkSnapshotKey, type SnapshotKey, snapshotPath } from "../../../crds/snapshots/snapshot-key.ts";
import type { KeptAs, StoreEntry } from "../../../crds/snapshots/snapshot-store.ts";
import { compareKeys, eachInPages, type PageFilter } from "../../../crds/snapshots/store-pages.ts";
import { whenAborted } from "../../../crds/waits.ts";
import { reachesWorkload } from "../../access/actor.ts";
import { serviceView, tenantLists } from "../../access/route-access.ts";
import { createSharedCall } from "../../cluster/shared-call.ts";
import { HttpError } from "../../http/http-error.ts";
import { pathParam, queryFlag, queryText, tenantIdRule, workloadNameRule } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import type { RoutedRequest } from "../../http/router.ts";
import { type ApiRoute, flagSchema } from "../api-route.ts";
import { tenantIdSchema } from "../openapi/schemas.ts";
import { limitQuery, limitSchema } from "../pages.ts";
import { readWorkload } from "../workloads.ts";
import { askStore, type SnapshotServices, storeState } from "./store.ts";

const DEFAULT_LIMIT = 500;
/** Reads of the store for one page of a list whose filter skips most entries. */
const MOST_READS = 4;

interface SnapshotPage {
  readonly items: readonly SnapshotRecord[];
  readonly next: SnapshotKey | undefined;
}

type ListQuery = PageFilter & {
  readonly versions: boolean;
  /** Those that the caller's key reaches; undefined for all. */
  readonly workloads?: readonly string[] | undefined;
};

const cursorRule = {
  accepts: (value: string): boolean => keyIn(value) !== undefined,
  says: "must be <tenant>/<workload>, as x-tenancy-next returns it",
};

const querySchemas = {
  versions: flagSchema("Whether to include older versions, each after its snapshot."),
  limit: limitSchema("Maximum number of snapshots; older versions do not count.", { default: DEFAULT_LIMIT }),
  after: {
    type: "string",
    pattern: `${pattern.tenantId.slice(0, -1)}/${pattern.subdomain.slice(1)}`,
    not: { pattern: "[^/]{64}" },
    description: "Only snapshots after this one, which x-tenancy-next returns.",
  },
} as const;

/**
 * `GET /api/v1/snapshots` and `GET /api/v1/workloads/{name}/snapshots`. Concurrent requests for the same page share one
 * read.
 */
export function snapshotListRoutes(services: SnapshotServices): ApiRoute[] {
  const shared = new Map<string, { readonly read: () => Promise<SnapshotPage>; readers: number }>();

  async function readShared(query: ListQuery, clientGone: AbortSignal): Promise<SnapshotPage> {
    const id = JSON.stringify(query);
    const of = shared.get(id) ?? {
      read: createSharedCall((looks) => readPage(query, { services, looks })),
      readers: 0,
    };
    shared.set(id, of);
    of.readers += 1;
    try {
      return await unlessGone(of.read(), clientGone);
    } finally {
      of.readers -= 1;
      if (of.readers === 0) shared.delete(id);
    }
  }

  async function answer(
    request: RoutedRequest,
    {
      clientGone = request.signal,
      ...filter
    }: Pick<ListQuery, "tenantId" | "workloadRef" | "workloads"> & { clientGone?: AbortSignal | undefined },
  ): Promise<Response> {
    const query = { ...filter, ...listQuery(request) };
    const { items, next } = await readShared(query, clientGone);
    const headers = next === undefined ? {} : { "x-tenancy-next": `${next.tenantId}/${next.workloadRef}` };
    return jsonResponse(items, { headers });
  }

  return [
    {
      method: "GET",
      path: "/api/v1/snapshots",
      access: tenantLists,
      summary: "Saved files of all tenants, in pages",
      description: "Sorted by tenant, then workload; includes deleted workloads.",
      query: { ...querySchemas, tenant: { ...tenantIdSchema, description: "Only this tenant's." } },
      answer: ["Snapshot"],
      mayTell: ["x-tenancy-next"],
      errors: [503, 504],
      async handle(request, { clientGone, mayBeSilent }) {
        const tenantId = queryText(request, "tenant", tenantIdRule);
        listQuery(request);
        const { workloads } = request.caller?.actor ?? {};
        // Only the keys of one tenant are few enough to read those in between that it does not reach.
        if (workloads !== undefined && tenantId === undefined)
          throw new HttpError(403, "this key reaches some workloads only: name a tenant with ?tenant=");
        mayBeSilent?.();
        return await answer(request, { tenantId, workloads, clientGone });
      },
    },
    {
      method: "GET",
      path: "/api/v1/workloads/:name/snapshots",
      access: serviceView,
      summary: "Saved files of a workload's tenants, in pages",
      description: "Sorted by tenant. Snapshots of a deleted workload are in the list of all.",
      query: querySchemas,
      answer: ["Snapshot"],
      mayTell: ["x-tenancy-next"],
      errors: [404, 503, 504],
      async handle(request, { clientGone, mayBeSilent }) {
        const workloadRef = pathParam(request, "name", workloadNameRule);
        listQuery(request);
        await readWorkload(workloadRef, services);
        mayBeSilent?.();
        return await answer(request, { workloadRef, clientGone });
      },
    },
  ];
}

/** @throws HttpError 400 for invalid values */
function listQuery(request: RoutedRequest): Pick<ListQuery, "versions" | "limit" | "after"> {
  const after = queryText(request, "after", cursorRule);
  return {
    versions: queryFlag(request, "versions"),
    limit: limitQuery(request) ?? DEFAULT_LIMIT,
    after: after === undefined ? undefined : keyIn(after),
  };
}

function keyIn(text: string): SnapshotKey | undefined {
  const [tenantId = "", workloadRef = "", ...more] = text.split("/");
  try {
    checkSnapshotKey({ tenantId, workloadRef });
    return more.length === 0 ? { tenantId, workloadRef } : undefined;
  } catch {
    return undefined;
  }
}

/** If a client disconnects, the others that share the page continue. */
async function unlessGone(reading: Promise<SnapshotPage>, clientGone: AbortSignal): Promise<SnapshotPage> {
  const gone = whenAborted([clientGone]);
  try {
    const read = await Promise.race([reading, gone.promise]);
    if (read === undefined) throw new HttpError(499, "the client went away");
    return read;
  } finally {
    gone.close();
  }
}

/**
 * Reads a page. The store may return less than requested, so it is read several times.
 *
 * @param options.looks called before the store is read
 * @throws HttpError as {@link askStore} and {@link storeState} do
 */
async function readPage(
  { limit, after, workloads, ...filter }: ListQuery,
  { services, looks }: { services: SnapshotServices; looks: () => void },
): Promise<SnapshotPage> {
  if ((await storeState(services)) === "none") return { items: [], next: undefined };
  looks();
  const ask = { ...services, clientGone: undefined };
  if (workloads !== undefined) return await readReached();
  const entries: StoreEntry[] = [];
  let next = after;
  for (let reads = 0; reads < MOST_READS; reads += 1) {
    const left = limit - new Set(entries.map(({ tenantId, workloadRef }) => `${tenantId}/${workloadRef}`)).size;
    if (left === 0) break;
    const page = { ...filter, limit: left, after: next };
    const read = await askStore(({ archives }, call) => archives.list(page, call), ask);
    for (const entry of read.items) entries.push(entry);
    next = read.next;
    if (next === undefined) break;
  }
  return { items: entries.map(snapshotRecord).sort(byKeyAndAge), next };

  /** Reads on until the page is full: the end of a page must not name a workload that the key does not reach. */
  async function readReached(): Promise<SnapshotPage> {
    const keys = new Set<string>();
    const reached: SnapshotRecord[] = [];
    const read = (page: Pick<PageFilter, "after" | "limit">) =>
      askStore(({ archives }, call) => archives.list({ ...filter, ...page, after: page.after ?? after }, call), ask);
    for await (const entry of eachInPages(read)) {
      const { workloadRef } = entry;
      if (!reachesWorkload({ workloads }, workloadRef)) continue;
      const last = reached.at(-1);
      if (!keys.has(workloadRef) && keys.size === limit && last !== undefined) {
        const { tenantId, workloadRef } = last;
        return { items: reached.sort(byKeyAndAge), next: { tenantId, workloadRef } };
      }
      keys.add(workloadRef);
      reached.push(snapshotRecord(entry));
    }
    return { items: reached.sort(byKeyAndAge), next: undefined };
  }
}

/** The snapshot record, with the metadata of the archive. */
interface SnapshotRecord {
  tenantId: string;
  workloadRef: string;
  /** On the snapshots volume. */
  path: string;
  /** Of an older version: its name for claims. */
  version?: string;
  sizeBytes: number;
  /** In hexadecimal digits; absent if the archive's metadata is lost or does not match. */
  sha256?: string;
  /** ISO 8601. */
  createdAt: string;
  /** Of an older version. */
  kept?: KeptAs;
  /** Of an older version that a running session has saved. */
  kind?: "checkpoint";
  names?: readonly string[];
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
    ...(metadata?.kind !== undefined && { kind: metadata.kind }),
    ...(metadata?.names !== undefined && { names: metadata.names }),
  };
}

/** Sorts by key, then newest first. */
function byKeyAndAge(a: SnapshotRecord, b: SnapshotRecord): number {
  const order = compareKeys(a, b);
  if (order !== 0) return order;
  if ((a.version === undefined) !== (b.version === undefined)) return a.version === undefined ? -1 : 1;
  return a.createdAt > b.createdAt ? -1 : 1;
}
