import type { Clock } from "../../crds/client/clock.ts";
import type { KubernetesObject } from "../../crds/kubernetes.ts";
import { quote } from "../../crds/quote.ts";
import { reachesWorkload } from "../access/actor.ts";
import type { CachedKind } from "../cluster/watch-cluster.ts";
import { HttpError } from "../http/http-error.ts";
import { instanceNameRule, queryText, queryWords, tenantIdRule, workloadNameRule } from "../http/parameters.ts";
import { versionHeader } from "../http/response.ts";
import type { RoutedRequest } from "../http/router.ts";
import type { OpenApiSchema } from "./openapi/request-schemas.ts";
import { nameSchema, tenantIdSchema } from "./openapi/schemas.ts";

/** Reads lists of a kind in pages, sorted by name: ten thousand objects at once would delay every other caller. */
export interface Pages<T> {
  /**
   * @param page.limit undefined for all
   * @param page.matches selects objects
   */
  read(page: PageQuery & { matches: (object: T) => boolean }): {
    readonly items: T[];
    /** `x-tenancy-version` and, if there is another page, `x-tenancy-next`. */
    readonly headers: Record<string, string>;
  };
}

interface PageQuery {
  readonly limit: number | undefined;
  readonly after: string | undefined;
}

const MAX_LIMIT = 1000;
/** The sorted names are cached from the first page for the following ones. */
const KEPT_MS = 10_000;

/** The query parameters that {@link pageQuery} reads. */
export function pageSchemas(more: { default?: number }): Readonly<Record<"limit" | "after", OpenApiSchema>> {
  return {
    limit: limitSchema("Maximum number, sorted by name.", more),
    after: { ...nameSchema, maxLength: 253, description: "Only names after this one, which x-tenancy-next returns." },
  };
}

/** The query parameter that {@link limitQuery} reads. */
export function limitSchema(description: string, more: { default?: number }): OpenApiSchema {
  return { type: "integer", minimum: 1, maximum: MAX_LIMIT, ...more, description };
}

/** Reads `limit`; undefined without it. @throws HttpError 400 if it is not a valid page size */
export function limitQuery({ query: { limit } }: RoutedRequest): number | undefined {
  const count = typeof limit === "string" && /^[1-9]\d{0,3}$/.test(limit) ? Number(limit) : Number.NaN;
  if (limit !== undefined && !(count <= MAX_LIMIT))
    throw new HttpError(400, `query.limit: must be a whole number from 1 to ${MAX_LIMIT}, got ${quote(String(limit))}`);
  return limit === undefined ? undefined : count;
}

/** Reads `limit` and `after`. @throws HttpError 400 if one is not valid */
export function pageQuery(request: RoutedRequest, defaultLimit?: number): PageQuery {
  return { limit: limitQuery(request) ?? defaultLimit, after: queryText(request, "after", instanceNameRule) };
}

/** The query parameters that {@link filterQuery} reads. */
export function filterSchemas(
  phases: readonly string[],
): Readonly<Record<"tenant" | "workload" | "phase", OpenApiSchema>> {
  const phase = `(?:${phases.join("|")})`;
  return {
    tenant: { ...tenantIdSchema, description: "Only this tenant's." },
    workload: { ...nameSchema, description: "Only this workload's." },
    phase: {
      type: "string",
      pattern: `^${phase}(?:,${phase})*$`,
      description: `Only these phases, separated by commas: ${phases.join(", ")}.`,
    },
  };
}

/** The fields that a list can be filtered by. */
interface Filtered {
  readonly tenant: string | undefined;
  readonly workload: string | undefined;
  /** @default "Pending" */
  readonly phase: string | undefined;
}

/**
 * Reads `tenant`, `workload` and `phase`.
 *
 * @returns a predicate of the requested objects, of those workloads that the caller's key reaches
 * @throws HttpError 400 for a value that no object can have
 */
export function filterQuery(request: RoutedRequest, phases: readonly string[]): (object: Filtered) => boolean {
  const tenant = queryText(request, "tenant", tenantIdRule);
  const workload = queryText(request, "workload", workloadNameRule);
  const wanted = queryWords(request, "phase", phases);
  const { workloads } = request.caller?.actor ?? {};
  return (object) =>
    reachesWorkload({ workloads }, object.workload) &&
    (tenant === undefined || object.tenant === tenant) &&
    (workload === undefined || object.workload === workload) &&
    (wanted === undefined || wanted.includes(object.phase ?? "Pending"));
}

/** Makes the pages of a cached kind. */
export function createPages<T extends KubernetesObject>(
  kind: Pick<CachedKind<T, never>, "store" | "versions">,
  { namespace, clock }: { namespace: string; clock: Clock },
): Pages<T> {
  let sorted: { readonly names: string[]; readonly seen: string | undefined; readonly sortedAt: number } | undefined;

  function sort(isFirst: boolean) {
    const ageMs = clock.now() - (sorted?.sortedAt ?? Number.NEGATIVE_INFINITY);
    if (sorted !== undefined && !isFirst && ageMs >= 0 && ageMs < KEPT_MS) return sorted;
    const names = Array.from(kind.store.values(), ({ metadata }) => metadata.name).sort();
    sorted = { names, seen: kind.versions().seen, sortedAt: clock.now() };
    return sorted;
  }

  return {
    read({ limit = Number.POSITIVE_INFINITY, after, matches }) {
      // Objects created after the sort are not included, so the list has the version of the sort.
      const { names, seen } = sort(after === undefined);
      const items: T[] = [];
      for (let at = after === undefined ? 0 : firstBehind(names, after); at < names.length; at += 1) {
        const object = kind.store.get({ namespace, name: names[at] ?? "" });
        if (object === undefined || !matches(object)) continue;
        if (items.length === limit) {
          const next = items.at(-1)?.metadata.name ?? "";
          return { items, headers: { ...versionHeader(seen), "x-tenancy-next": next } };
        }
        items.push(object);
      }
      return { items, headers: versionHeader(seen) };
    },
  };
}

/** Index of the first greater name. */
function firstBehind(names: readonly string[], after: string): number {
  let [from, to] = [0, names.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((names[middle] ?? "") <= after) from = middle + 1;
    else to = middle;
  }
  return from;
}
