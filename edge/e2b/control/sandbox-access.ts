import type { ClaimKey } from "../../../crds/claims/claim-key.ts";
import { quote } from "../../../crds/quote.ts";
import { type Actor, reaches, reachesWorkload } from "../../access/actor.ts";
import type { Authorize } from "../../access/authorize.ts";
import { adminOnly, anyKey, claimView, type RouteAccess, tenantUse } from "../../access/route-access.ts";
import { HttpError } from "../../http/http-error.ts";
import type { RoutedRequest } from "../../http/router.ts";
import { readSandboxId } from "../sandbox-id.ts";

/** Creates sandboxes; the route itself checks whose. */
export const create: RouteAccess = { ...tenantUse, whose: "own", checksWorkload: true, claims: true };
/** Starts, extends and pauses one sandbox. */
export const claimOne: RouteAccess = { ...tenantUse, checksWorkload: true, claims: true };
/** Changes or looks into one sandbox. */
export const useOne: RouteAccess = { ...tenantUse, checksWorkload: true };
/** Shows one sandbox from outside. */
export const viewOne: RouteAccess = { ...claimView, checksWorkload: true };
/** Lists what the key reaches. */
export const listOwn: RouteAccess = { ...anyKey, checksWorkload: true, claims: true };

/**
 * What a key may do with sandboxes, by the rules of the REST API. A sandbox that the key does not reach is answered as
 * one that does not exist.
 */
export const authorizeSandbox: Authorize = (actor, request, access = adminOnly) => {
  const { role, tenants, workloads } = actor;
  const isClaiming = actor.mayClaim === true && access.claims === true;
  const isOne = access.whose === "tenant";
  const key = isOne ? readSandboxId(idOf(request)) : undefined;
  if (key !== undefined) request.audit?.about({ tenant: key.tenantId, workload: key.workloadRef });
  if (role === "admin" || isClaiming) return undefined;
  if (!access.roles.includes(role)) throw new HttpError(403, `a key of the role ${role} may not make this request`);
  if (isOne) {
    if (key === undefined || !reachesKey(actor, key)) throw sandboxNotFound(request);
    return tenants && key.tenantId;
  }
  if (access.whose === undefined && (tenants !== undefined || workloads !== undefined))
    throw new HttpError(403, "this key reaches some tenants or workloads only, and this request is about all");
  return undefined;
};

export function reachesKey(actor: Pick<Actor, "tenants" | "workloads">, { tenantId, workloadRef }: ClaimKey): boolean {
  return reaches(actor, tenantId) && reachesWorkload(actor, workloadRef);
}

/** Whether an actor may use what is in a key's files. */
export function mayUseFiles(actor: Actor, key: ClaimKey): boolean {
  return actor.role === "admin" || (actor.role !== "reader" && reachesKey(actor, key));
}

/** Whether an actor may reach every tenant with the requests that a route allows. */
export function reachesAll({ role, tenants, mayClaim }: Actor): boolean {
  return role === "admin" || mayClaim === true || tenants === undefined;
}

/** The claim of the sandbox that a path names. @throws HttpError 404 for a text that is no id */
export function sandboxKey(request: RoutedRequest): ClaimKey {
  const key = readSandboxId(idOf(request));
  if (key === undefined) throw sandboxNotFound(request);
  return key;
}

/** The same answer for a sandbox that does not exist and for one that the key does not reach. */
export function sandboxNotFound(request: RoutedRequest): HttpError {
  return new HttpError(404, `sandbox ${quote(idOf(request))} does not exist for this key`);
}

function idOf({ params: { sandbox = "" } }: RoutedRequest): string {
  try {
    return decodeURIComponent(sandbox);
  } catch {
    return sandbox;
  }
}
