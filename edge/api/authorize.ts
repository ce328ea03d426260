import { label } from "../../crds/labels.ts";
import { reaches } from "../access/actor.ts";
import { type Authorize, requireTenant } from "../access/authorize.ts";
import { adminOnly, type RouteAccess } from "../access/route-access.ts";
import { HttpError } from "../http/http-error.ts";
import { instanceNameRule, pathParam, queryText, tenantIdRule } from "../http/parameters.ts";
import { findInstance, instanceNotFound } from "./instances/instance.ts";

/**
 * Returns the check of what a key may do. A tenant that the key does not reach, and an instance of such a tenant, are
 * answered as things that do not exist: the answer must not show whether they do.
 */
export function createAuthorize(services: Parameters<typeof findInstance>[1]): Authorize {
  return (actor, request, access = adminOnly) => {
    const { role, tenants } = actor;
    if (role === "admin" || (actor.mayClaim === true && access.claims === true)) return undefined;
    if (!access.roles.includes(role))
      throw new HttpError(403, `a key of the role ${role} may not make this request; it needs ${rolesOf(access)}`);
    if (tenants === undefined) return undefined;
    switch (access.whose) {
      case undefined:
        throw new HttpError(403, `this key reaches ${named(tenants)} only, and this request is about all tenants`);
      case "own":
        return undefined;
      case "query": {
        const tenantId = queryText(request, "tenant", tenantIdRule);
        if (tenantId === undefined)
          throw new HttpError(403, `this key reaches ${named(tenants)} only: name one of them with ?tenant=`);
        return requireTenant(actor, tenantId);
      }
      case "tenant":
        return requireTenant(actor, pathParam(request, "id", tenantIdRule));
      case "instance": {
        const name = pathParam(request, "id", instanceNameRule);
        return findInstance(name, services).then(({ metadata: { labels } }) => {
          const tenantId = labels?.[label.tenant];
          if (tenantId === undefined || !reaches(actor, tenantId)) throw instanceNotFound(name);
          return tenantId;
        });
      }
      default:
        return access.whose satisfies never;
    }
  };
}

function named(tenants: readonly string[]): string {
  return tenants.length === 0 ? "no tenant" : tenants.join(", ");
}

function rolesOf({ roles }: RouteAccess): string {
  return ["admin", ...roles].join(" or ");
}
