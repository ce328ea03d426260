import { isTenantId } from "../../../crds/names.ts";
import { quote } from "../../../crds/quote.ts";
import { HOUR_MS, hourAt, hourStart, type UsageHour } from "../../../crds/usage/usage-hour.ts";
import { tenantLists } from "../../access/route-access.ts";
import { HttpError } from "../../http/http-error.ts";
import { queryText, tenantIdRule } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import type { RoutedRequest } from "../../http/router.ts";
import type { ApiRoute } from "../api-route.ts";
import { tenantIdSchema } from "../openapi/schemas.ts";
import { limitQuery, limitSchema } from "../pages.ts";
import { askStore, type SnapshotServices, storeState } from "../snapshots/store.ts";
import { tenantsQuery, tenantsSchemas } from "../tenants-query.ts";
import { toCsv } from "./csv.ts";
import { sumUsage, type UsageGroup, type UsageSum, usageGroups, usageOrders } from "./sum-usage.ts";

export interface UsageServices extends SnapshotServices {
  /** Milliseconds since the epoch. */
  readonly timeOfDay: () => number;
}

const DEFAULT_LIMIT = 500;
const MOST_DAYS = 92;
const DAY_MS = 24 * HOUR_MS;
const READ_LIMIT_MS = 300_000;
/** Each request reads the records of its range. */
const MOST_AT_ONCE = 8;
/** Of those, by keys of some tenants. */
const MOST_OF_TENANTS = 6;
/** Of those, which hold all sums in memory, 30 MB each. */
const MOST_SORTING = 2;
const BUSY = { headers: { "retry-after": "5" }, expected: true };
const TIME = /^20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])(T([01][0-9]|2[0-3])(:00:00(\.0{1,9})?Z)?)?$/;
const sources = ["pool", "pool+data", "cold", "cold+data", "existing"] as const;

const timeRule = {
  accepts: (text: string): boolean => hourIn(text) !== undefined,
  says: "must be a day or a whole hour of UTC, such as 2026-11-29 or 2026-11-29T14:00:00Z",
};
const afterRule = { accepts: isTenantId, says: "must be the x-tenancy-next of the page before" };
const wordRule = (words: readonly string[]) => ({
  accepts: (text: string) => words.includes(text),
  says: `must be ${words.join(" or ")}`,
});

const timeSchema = (description: string) => ({ type: "string", pattern: TIME.source, description }) as const;

/** `GET /api/v1/usage`. */
export function usageRoutes(services: UsageServices): ApiRoute[] {
  let reading = 0;
  let readingOfTenants = 0;
  let sorting = 0;
  /** Tenants and keys of some tenants that are reading. */
  const readers = new Set<string>();

  return [
    {
      method: "GET",
      path: "/api/v1/usage",
      access: tenantLists,
      summary: "What sessions and snapshots used, by tenant, workload or day",
      description:
        "Sorted by that, or by `order`, in pages. A session that goes on counts up to the last whole hour. Times are UTC. " +
        "`Accept: text/csv` or `format=csv` gets a table for spreadsheets.",
      query: {
        from: timeSchema("The first day or hour. By default the first day of the month of `to`."),
        to: timeSchema(`The day or hour after the last one, at most ${MOST_DAYS} days after \`from\`. Default: now.`),
        by: { type: "string", enum: [...usageGroups], default: "tenant", description: "What the sums are by." },
        tenant: { ...tenantIdSchema, description: "Only this tenant's." },
        ...tenantsSchemas,
        order: {
          ...{ type: "string", enum: [...usageOrders] },
          description:
            "Sorted by this, the greatest first. All sums are added up for each page, so a page can repeat or miss what has moved since the page before; at most 100000 sums can be sorted.",
        },
        limit: limitSchema("Maximum number of sums.", { default: DEFAULT_LIMIT }),
        after: { ...tenantIdSchema, description: "Only sums after this one, which x-tenancy-next returns." },
        format: { type: "string", enum: ["json", "csv"], description: "By default what `Accept` asks for." },
      },
      answer: ["Usage"],
      alsoAnswers: "text/csv",
      mayTell: ["x-tenancy-next"],
      errors: [404, 429, 503, 504],
      async handle(request, { clientGone = request.signal, mayBeSilent }) {
        const range = rangeQuery(request);
        const by = (queryText(request, "by", wordRule(usageGroups)) ?? "tenant") as UsageGroup;
        const tenantId = queryText(request, "tenant", tenantIdRule);
        const after = queryText(request, "after", afterRule);
        const { tenants, prefix = "" } = tenantsQuery(request);
        const order = queryText(request, "order", wordRule(usageOrders)) as (typeof usageOrders)[number] | undefined;
        const limit = limitQuery(request) ?? DEFAULT_LIMIT;
        const format = queryText(request, "format", wordRule(["json", "csv"]));
        const { workloads } = request.caller?.actor ?? {};
        mayBeSilent?.();
        await requireStore();
        const isMeant = (id: string): boolean =>
          id === (tenantId ?? id) && id.startsWith(prefix) && tenants?.has(id) !== false;
        const options = { by, isMeant, workloads, order, after, limit };
        const { sums, next } = await inTurn({ own: readersOf(request, tenantId), sorts: order !== undefined }, () =>
          askStore(({ usage }, call) => sumUsage(usage.read(range, call), options), {
            ...{ ...services, clientGone, limitMs: READ_LIMIT_MS },
          }),
        );
        const headers = { vary: "accept", ...(next !== undefined && { "x-tenancy-next": next }) };
        if ((format ?? acceptedFormat(request)) === "json") {
          return jsonResponse(
            sums.map((sum) => usageResponse(by, sum)),
            { headers },
          );
        }
        const disposition = `attachment; filename="usage-${range.from}-${range.to}.csv"`;
        const type = { "content-type": "text/csv; charset=utf-8", "content-disposition": disposition };
        return new Response(csvOf(by, sums), { headers: { ...headers, ...type } });
      },
    },
  ];

  async function requireStore(): Promise<void> {
    if ((await storeState(services)) === "ready") return;
    throw new HttpError(
      404,
      "no usage is recorded, since there is no store yet: set TENANCY_SNAPSHOT_STORE to a bucket, or create a workload with filesystem.overlayDirs, which creates the snapshots volume",
    );
  }

  /**
   * @param of.own who reads with a key of some tenants; undefined for a key of all
   * @param of.sorts whether it holds all sums in memory
   * @throws HttpError 429 if one of them is reading already, 503 if too many are; tenants leave room for the others
   */
  async function inTurn<T>(
    { own, sorts }: { own: readonly string[] | undefined; sorts: boolean },
    work: () => Promise<T>,
  ): Promise<T> {
    if (own?.some((one) => readers.has(one))) {
      throw new HttpError(429, "the tenant, or this key, is reading usage already; try again after that", BUSY);
    }
    const isFull = reading >= MOST_AT_ONCE || (sorts && sorting >= MOST_SORTING);
    if (isFull || (own !== undefined && readingOfTenants >= MOST_OF_TENANTS)) {
      throw new HttpError(503, "too many requests are reading usage; try again", BUSY);
    }
    reading += 1;
    if (sorts) sorting += 1;
    if (own !== undefined) readingOfTenants += 1;
    for (const one of own ?? []) readers.add(one);
    try {
      return await work();
    } finally {
      reading -= 1;
      if (sorts) sorting -= 1;
      if (own !== undefined) readingOfTenants -= 1;
      for (const one of own ?? []) readers.delete(one);
    }
  }

  /** @throws HttpError 400 for invalid times, and for a range that is empty or too long */
  function rangeQuery(request: RoutedRequest): { from: UsageHour; to: UsageHour } {
    const [given, until] = [queryText(request, "from", timeRule), queryText(request, "to", timeRule)];
    const to = hourIn(until ?? "") ?? hourAt(services.timeOfDay() + HOUR_MS);
    const lastDay = new Date(hourStart(to) - 1).toISOString();
    const from = hourIn(given ?? "") ?? `${lastDay.slice(0, 7)}-01T00`;
    const days = (hourStart(to) - hourStart(from)) / DAY_MS;
    if (days > 0 && days <= MOST_DAYS) return { from, to };
    throw new HttpError(
      400,
      `query.to: must be after query.from, by at most ${MOST_DAYS} days; got ${quote(from)} to ${quote(to)}`,
    );
  }
}

/** A tenant can have many keys, and a key can reach many tenants. */
function readersOf({ caller }: RoutedRequest, tenantId: string | undefined): string[] | undefined {
  if (caller?.actor.tenants === undefined) return undefined;
  return [`tenant ${tenantId ?? ""}`, `key ${caller.actor.ref}`];
}

/** The hour that a day or a time begins with; undefined if it is not valid. */
function hourIn(text: string): UsageHour | undefined {
  if (!TIME.test(text)) return undefined;
  const hour = text.length === 10 ? `${text}T00` : text.slice(0, 13);
  const ms = hourStart(hour);
  return !Number.isNaN(ms) && hourAt(ms) === hour ? hour : undefined;
}

function acceptedFormat({ headers }: RoutedRequest): "json" | "csv" {
  const accept = headers.get("accept") ?? "";
  return /\btext\/csv\b/.test(accept) && !/\bapplication\/json\b/.test(accept) ? "csv" : "json";
}

const keyNames = { tenant: "tenantId", workload: "workload", day: "day" } as const;

function usageResponse(by: UsageGroup, { key, ...sum }: UsageSum): object {
  return { [keyNames[by]]: key, ...sum };
}

function csvOf(by: UsageGroup, sums: readonly UsageSum[]): string {
  const names = ["sessions", "seconds", "vcpuSeconds", "mibSeconds"] as const;
  // Columns that came later are after those that programs may count.
  const last = ["snapshotByteHours"] as const;
  return toCsv([
    [keyNames[by], ...names, ...sources, ...last],
    ...sums.map((sum) => [
      sum.key,
      ...names.map((name) => sum[name]),
      ...sources.map((one) => sum.sources[one] ?? 0),
      ...last.map((name) => sum[name]),
    ]),
  ]);
}
