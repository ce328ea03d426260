import type { LooseOptions } from "./call.ts";

/**
 * An instance: by its id, by a claim, or by its tenant and workload. With `wake` the call claims the workload with its
 * files, if it is not claimed, and waits for it.
 */
export type Place =
  | string
  | { readonly tenantId: string; readonly workloadRef: string; readonly instanceId?: string }
  | { readonly tenant: string; readonly workload: string; readonly wake?: boolean };

/** What a call below an instance begins with. */
export interface PlaceCall {
  /** Before the rest of the route's path. */
  readonly base: string;
  readonly path: NonNullable<LooseOptions["path"]>;
  readonly query: { readonly wake?: true };
}

export function placeCall(place: Place): PlaceCall {
  const instance = typeof place === "string" ? place : "tenantId" in place ? place.instanceId : undefined;
  if (instance !== undefined) return { base: "/api/v1/instances/{id}", path: { id: instance }, query: {} };
  const { id, workload, wake } = keyOf(place as Exclude<Place, string>);
  return { base: "/api/v1/tenants/{id}/instances/{workload}", path: { id, workload }, query: wake ? { wake } : {} };
}

/** Whose instance it is. */
export function keyOf(place: Exclude<Place, string>): { id: string; workload: string; wake: boolean } {
  if ("tenantId" in place) return { id: place.tenantId, workload: place.workloadRef, wake: false };
  return { id: place.tenant, workload: place.workload, wake: place.wake === true };
}
