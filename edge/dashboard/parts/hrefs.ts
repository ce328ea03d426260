import type { ClaimKey } from "../claims/claim.ts";

/** What a page shows of the inside of an instance. */
export type InsidePart = "terminal" | "files" | "processes";

/** The address of a claim's page. */
export function claimHref(of: ClaimKey): string {
  return `/dashboard/claims/${pathOf(of)}`;
}

/** The address of the page of a tenant's saved versions. */
export function savedHref(of: ClaimKey): string {
  return `/dashboard/snapshots/${pathOf(of)}`;
}

/** The address of an instance's page. */
export function instanceHref(instance: string): string {
  return `/dashboard/instances/${encodeURIComponent(instance)}`;
}

/** The address of the page of a part of an instance. */
export function insideHref(instance: string, part: InsidePart, query: Readonly<Record<string, string>> = {}): string {
  const search = new URLSearchParams(query).toString();
  return `${instanceHref(instance)}/${part}${search === "" ? "" : `?${search}`}`;
}

function pathOf({ tenantId, workloadRef }: ClaimKey): string {
  return `${encodeURIComponent(tenantId)}/${encodeURIComponent(workloadRef)}`;
}
