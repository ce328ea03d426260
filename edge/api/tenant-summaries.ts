import { inTurns } from "../../crds/in-turns.ts";
import type { StoreEntry } from "../../crds/snapshots/snapshot-store.ts";
import { compareTenants, eachInPages, type PageFilter, tenantOrder } from "../../crds/snapshots/store-pages.ts";
import { serviceView } from "../access/route-access.ts";
import { requireFresh } from "../cluster/freshness.ts";
import { queryText, tenantIdRule } from "../http/parameters.ts";
import { jsonResponse } from "../http/response.ts";
import type { ApiRoute } from "./api-route.ts";
import { knownQuotas, type LimitServices, shownQuota } from "./limits.ts";
import { tenantIdSchema } from "./openapi/schemas.ts";
import { limitQuery, limitSchema } from "./pages.ts";
import { askStore, storeState } from "./snapshots/store.ts";
import { bytesOf, entriesOfTenant } from "./snapshots/usage.ts";
import { tenantsQuery, tenantsSchemas } from "./tenants-query.ts";

const DEFAULT_LIMIT = 100;
/** Tenants whose files are read beside each other. */
const AT_ONCE = 8;
/** The greatest name of a workload: a key with it comes after all others of its tenant. */
const LAST_WORKLOAD = "z".repeat(63);

/** What a page begins and ends with. */
interface Range {
  /** Only tenants after this one. @default all */
  readonly after: string | undefined;
  readonly prefix: string;
  readonly limit: number;
}

/** `GET /api/v1/tenant-summaries`. */
export function tenantSummaryRoute(services: LimitServices): ApiRoute {
  const { cache } = services;
  return {
    method: "GET",
    path: "/api/v1/tenant-summaries",
    access: serviceView,
    summary: "Tenants with their saved files and quotas, in pages",
    description:
      "All tenants that have a claim, saved files, or an entry of their own in the quotas, sorted by id followed by a slash, as in `GET /api/v1/snapshots`: `a-b` comes before `a`. With `tenants`, exactly these, whatever they have.",
    query: {
      ...tenantsSchemas,
      limit: limitSchema("Maximum number of tenants.", { default: DEFAULT_LIMIT }),
      after: { ...tenantIdSchema, description: "Only tenants after this one, which x-tenancy-next returns." },
    },
    answer: ["TenantSummary"],
    mayTell: ["x-tenancy-next"],
    errors: [503, 504],
    async handle(request, { clientGone = request.signal, mayBeSilent }) {
      const { tenants, prefix = "" } = tenantsQuery(request);
      const after = queryText(request, "after", tenantIdRule);
      const limit = limitQuery(request) ?? DEFAULT_LIMIT;
      requireFresh(cache.claims, cache.workloads);
      const { known } = knownQuotas(request, services);
      mayBeSilent?.();
      const range = { after, prefix, limit };
      const { saved, next } =
        tenants === undefined
          ? await readPage(known.named ?? [], range, clientGone)
          : pageOf(await readEach([...tenants], clientGone), range);
      const summaries = [...saved].map(([tenantId, entries]) => {
        const bytes = bytesOf(entries);
        const workloads = new Set(entries.map(({ workloadRef }) => workloadRef)).size;
        return {
          tenantId,
          saved: { workloads, versions: entries.length, bytes },
          ...shownQuota(tenantId, { quota: known.of(tenantId), bytes, services }),
        };
      });
      return jsonResponse(summaries, { headers: next === undefined ? {} : { "x-tenancy-next": next } });
    },
  };

  async function readEach(ids: readonly string[], clientGone: AbortSignal): Promise<Map<string, StoreEntry[]>> {
    const read = async (id: string) => [id, await entriesOfTenant(id, services, clientGone)] as const;
    return new Map(await inTurns(ids, read, { atOnce: AT_ONCE }));
  }

  /** The first tenants of a range: of those in the store, only these are read. */
  async function readPage(named: readonly string[], range: Range, clientGone: AbortSignal) {
    const saved = await readStored(range, clientGone);
    const claiming = Array.from(cache.claims.store.values(), ({ spec }) => spec.tenantId);
    for (const id of [...claiming, ...named]) if (!saved.has(id)) saved.set(id, []);
    return pageOf(saved, range);
  }

  /** The first tenants with saved files: one more than the limit, if there are as many. */
  async function readStored(
    { after, prefix, limit }: Range,
    clientGone: AbortSignal,
  ): Promise<Map<string, StoreEntry[]>> {
    const saved = new Map<string, StoreEntry[]>();
    if ((await storeState(services)) === "none") return saved;
    const before = idBefore(prefix);
    const first = [after, before]
      .filter((id) => id !== undefined)
      .sort(compareTenants)
      .at(-1);
    const start = first === undefined ? undefined : { tenantId: first, workloadRef: LAST_WORKLOAD };
    await askStore(
      async ({ archives }, call) => {
        const read = (page: Pick<PageFilter, "after" | "limit">) =>
          archives.list({ ...page, after: page.after ?? start, versions: true }, call);
        // In a bucket, each key of a page costs a read of its head, unless it is cached.
        for await (const entry of eachInPages(read, { limit: limit + 1 })) {
          const { tenantId } = entry;
          const known = saved.get(tenantId);
          if (known !== undefined) known.push(entry);
          else if (tenantId.startsWith(prefix) && saved.size <= limit) saved.set(tenantId, [entry]);
          else if (tenantOrder(tenantId) > prefix) return;
        }
      },
      { ...services, clientGone },
    );
    return saved;
  }
}

/** The first tenants of those in a range. */
function pageOf(saved: ReadonlyMap<string, StoreEntry[]>, { after, prefix, limit }: Range) {
  const ids = [...saved.keys()]
    .filter((id) => id.startsWith(prefix) && (after === undefined || compareTenants(id, after) > 0))
    .sort(compareTenants);
  const page = ids.slice(0, limit);
  return {
    saved: new Map(page.map((id) => [id, saved.get(id) ?? []])),
    next: ids.length > limit ? page.at(-1) : undefined,
  };
}

/** What a tenant id consists of, in the order of the characters. */
const CHARACTERS = "-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz";
/** What it can begin with. */
const FIRST = CHARACTERS.replace(/[-._]/g, "");

/**
 * The last tenant id before those that begin with a prefix, such as `abzzz…` for `ac`; undefined if there is none.
 * It need not exist.
 */
function idBefore(prefix: string): string | undefined {
  // The id has 63 characters, and ends with a letter.
  const start = prefix.slice(0, 62);
  if (start === "") return undefined;
  const characters = start.length === 1 ? FIRST : CHARACTERS;
  const lower = characters[characters.indexOf(start.slice(-1)) - 1];
  // No character comes before `-`: what begins with `ac-` is the first of what begins with `ac`.
  return lower === undefined ? idBefore(start.slice(0, -1)) : `${start.slice(0, -1)}${lower}`.padEnd(63, "z");
}
