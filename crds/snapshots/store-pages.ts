import type { SnapshotKey } from "./snapshot-key.ts";

/** Which part of a list is wanted. */
export interface PageFilter {
  /** Of this tenant alone. */
  readonly tenantId?: string | undefined;
  /** Of this workload alone. */
  readonly workloadRef?: string | undefined;
  /** Only what comes behind this key in the order of {@link compareKeys}. @default from the beginning */
  readonly after?: SnapshotKey | undefined;
  /** At most so many keys. */
  readonly limit: number;
}

/** A part of a list. */
export interface StorePage<T> {
  /** In the order of {@link compareKeys}. There may be fewer than asked for, or none, also before the end. */
  readonly items: readonly T[];
  /** Where the next page begins, as its `after`; undefined at the end. */
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
 * The order of lists, the same in all stores: by tenant, then workload. It is the order that object storage has for the
 * names of heads (`heads/<tenant>/<workload>.json`), so `a-b` comes before `a`.
 *
 * @returns below zero where `a` comes first, zero for the same key
 */
export function compareKeys(a: SnapshotKey, b: SnapshotKey): number {
  return compare(tenantOrder(a.tenantId), tenantOrder(b.tenantId)) || compare(workloadOrder(a), workloadOrder(b));
}

/** What tenants are ordered by, as text. */
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
