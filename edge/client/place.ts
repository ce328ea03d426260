import { ApiError, type LooseCalls, type LooseOptions } from "./call.ts";
import type { Claim } from "./operations.ts";

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

/** The name of the instance. @throws ApiError with the status 404 without a claim, or 409 if it has no instance */
export async function instanceOf(
  place: Place,
  { calls, signal }: { calls: LooseCalls; signal: AbortSignal | undefined },
): Promise<string> {
  if (typeof place === "string") return place;
  const known = "tenantId" in place ? place.instanceId : undefined;
  if (known !== undefined) return known;
  const { id, workload, wake } = keyOf(place);
  const answer = wake
    ? await calls.call("POST /api/v1/tenants/{id}/claim", { path: { id }, body: { workload, resume: true }, signal })
    : await calls.call("GET /api/v1/tenants/{id}/claims/{workload}", { path: { id, workload }, signal });
  const { instanceId } = answer as Claim;
  if (instanceId !== undefined) return instanceId;
  throw new ApiError(`tenant ${JSON.stringify(id)} has no instance of ${JSON.stringify(workload)} yet`, {
    status: 409,
  });
}

/** Whose instance it is. */
function keyOf(place: Exclude<Place, string>): { id: string; workload: string; wake: boolean } {
  if ("tenantId" in place) return { id: place.tenantId, workload: place.workloadRef, wake: false };
  return { id: place.tenant, workload: place.workload, wake: place.wake === true };
}
