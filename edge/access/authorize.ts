import { quote } from "../../crds/quote.ts";
import { HttpError } from "../http/http-error.ts";
import type { RoutedRequest } from "../http/router.ts";
import { type Actor, reaches, reachesWorkload } from "./actor.ts";
import type { RouteAccess } from "./route-access.ts";

/**
 * Throws if an actor may not make a request of a route.
 *
 * @returns the tenant whose things the request is about, for an actor that reaches only some tenants
 */
export type Authorize = (
  actor: Actor,
  request: RoutedRequest,
  access: RouteAccess | undefined,
) => string | undefined | Promise<string | undefined>;

/** Refuses every key but those of the role `admin`. */
export const adminsOnly: Authorize = ({ role }) => {
  if (role !== "admin") throw new HttpError(403, `a key of the role ${role} may not make this request`);
  return undefined;
};

/** @throws HttpError 404 for a tenant that the actor does not reach */
export function requireTenant(actor: Actor, tenantId: string): string {
  if (!reaches(actor, tenantId)) throw new HttpError(404, `tenant ${quote(tenantId)} does not exist for this key`);
  return tenantId;
}

/**
 * The answer does not depend on whether the workload exists.
 *
 * @param actor undefined where no key is required
 * @throws HttpError 404 for a workload that the actor does not reach
 */
export function requireWorkload(actor: Pick<Actor, "workloads"> | undefined, workload: string): void {
  if (actor?.workloads === undefined || reachesWorkload(actor, workload)) return;
  throw new HttpError(
    404,
    `workload ${quote(workload)} does not exist for this key, which reaches ${actor.workloads.join(", ")} only`,
  );
}
