import type { SnapshotKey } from "./snapshot-key.ts";

/** Selects a part of a list. */
export interface PageFilter {
  /** Only keys of this tenant. */
  readonly tenantId?: string | undefined;
  /** Only keys of this workload. */
  readonly workloadRef?: string | undefined;
  /** Only keys after this one in the order of {@link compareKeys}. @default all */
  readonly after?: SnapshotKey | undefined;
  /** The most keys in a page. */
  readonly limit: number;
}

/** A part of a list. */
export interface StorePage<T> {
  /** In the order of {@link compareKeys}. A page before the end may have fewer items than the limit, or none. */
  readonly items: readonly T[];
  /** The `after` of the next page; undefined at the end. */
  readonly next: SnapshotKey | undefined;
}

const PAGE_KEYS = 500;

/** Reads a list page by page, so that only one page is in memory. */
export async function* eachInPages<T>(
  read: (page: Pick<PageFilter, "after" | "limit">) => Promise<StorePage<T>>,
  { limit = PAGE_KEYS }: { limit?: number } = {},
): AsyncGenerator<T> {
  let after: SnapshotKey | undefined;
  do {
    const { items, next } = await read({ after, limit });
    yield* items;
    after = next;
  } while (after !== undefined);
}

/**
 * The order of lists in all stores: by tenant, then by workload. It is the order of the heads' names in object storage
 * (`heads/<tenant>/<workload>.json`), so `a-b` comes before `a`.
 *
 * @returns negative if `a` comes first, 0 if the keys are the same
 */
export function compareKeys(a: SnapshotKey, b: SnapshotKey): number {
  return compareTenants(a.tenantId, b.tenantId) || compare(workloadOrder(a), workloadOrder(b));
}

/** The order of tenants in {@link compareKeys}. */
export function compareTenants(a: string, b: string): number {
  return compare(tenantOrder(a), tenantOrder(b));
}

/** The text that tenants are sorted by. */
export function tenantOrder(tenantId: string): string {
  return `${tenantId}/`;
}

function workloadOrder({ workloadRef }: SnapshotKey): string {
  return `${workloadRef}.json`;
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
