import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { knownOf } from "../claims/known-of.ts";
import { healthOf } from "../parts/health.ts";

/** What the tenants can be sorted by; by a measure of usage, the API sorts. */
const sorts = {
  tenant: undefined,
  claims: undefined,
  vcpu: "vcpuSeconds",
  gib: "mibSeconds",
  saved: "snapshotByteHours",
} as const;

export type TenantSort = keyof typeof sorts;

/** What the page shows, as its address says. */
export interface TenantsView {
  readonly sort: TenantSort;
  /** What the ids begin with; empty for all. */
  readonly prefix: string;
  /** The tenant before the first one; empty for the first page. */
  readonly after: string;
}

/** The claims of a tenant. */
export interface ClaimCounts {
  readonly all: number;
  readonly failing: number;
}

/** Reads a view; an unknown order is ignored. */
export function readTenantsView(query: URLSearchParams): TenantsView {
  const sort = query.get("sort") ?? "";
  return {
    sort: Object.hasOwn(sorts, sort) ? (sort as TenantSort) : "tenant",
    prefix: query.get("prefix") ?? "",
    after: query.get("after") ?? "",
  };
}

/** The `order` of `GET /usage`; undefined for an order that is not by use. */
export function usageOrder({ sort }: TenantsView): (typeof sorts)[TenantSort] {
  return sorts[sort];
}

export function countClaims(claims: Iterable<ApiTypes["Claim"]>): Map<string, ClaimCounts> {
  const counts = new Map<string, ClaimCounts>();
  for (const claim of claims) {
    const { all, failing } = counts.get(claim.tenantId) ?? { all: 0, failing: 0 };
    const isFailing = healthOf(knownOf(claim)).is === "bad";
    counts.set(claim.tenantId, { all: all + 1, failing: failing + (isFailing ? 1 : 0) });
  }
  return counts;
}

/** A page of the tenants with claims: most failing ones first, then most claims, then by id. */
export function pageOfClaiming(
  counts: ReadonlyMap<string, ClaimCounts>,
  { prefix, after, limit }: Pick<TenantsView, "prefix" | "after"> & { limit: number },
): { ids: string[]; next: string | undefined } {
  const sorted = [...counts]
    .filter(([id]) => id.startsWith(prefix))
    .sort(([a, x], [b, y]) => y.failing - x.failing || y.all - x.all || (a < b ? -1 : 1))
    .map(([id]) => id);
  // The tenant before the page may have no claim any more: the first page then.
  const start = after === "" ? 0 : sorted.indexOf(after) + 1;
  const ids = sorted.slice(start, start + limit);
  return { ids, next: start + limit < sorted.length ? ids.at(-1) : undefined };
}
