import { quote } from "../../crds/quote.ts";
import { HttpError } from "../http/http-error.ts";
import type { RoutedRequest } from "../http/router.ts";
import { type Actor, reaches } from "./actor.ts";
import type { RouteAccess } from "./route-access.ts";

/** Throws if an actor may not make a request of a route. */
export type Authorize = (actor: Actor, request: RoutedRequest, access: RouteAccess | undefined) => void | Promise<void>;

/** Refuses every key but those of the role `admin`. */
export const adminsOnly: Authorize = ({ role }) => {
  if (role !== "admin") throw new HttpError(403, `a key of the role ${role} may not make this request`);
};

/** @throws HttpError 404 for a tenant that the actor does not reach */
export function requireTenant(actor: Actor, tenantId: string): void {
  if (!reaches(actor, tenantId)) throw new HttpError(404, `tenant ${quote(tenantId)} does not exist for this key`);
}
