import { label } from "../../crds/labels.ts";
import { type Actor, reaches, reachesWorkload } from "../access/actor.ts";
import { type Authorize, requireTenant, requireWorkload } from "../access/authorize.ts";
import { adminOnly, type RouteAccess } from "../access/route-access.ts";
import { HttpError } from "../http/http-error.ts";
import { instanceNameRule, pathParam, queryText, tenantIdRule, workloadNameRule } from "../http/parameters.ts";
import type { RoutedRequest } from "../http/router.ts";
import { findInstance, instanceNotFound } from "./instances/instance.ts";

/**
 * Returns the check of what a key may do. A tenant or workload that the key does not reach, and an instance of such a
 * one, are answered as things that do not exist: the answer must not show whether they do.
 */
export function createAuthorize(services: Parameters<typeof findInstance>[1]): Authorize {
  return (actor, request, access = adminOnly) => {
    const { role, tenants, workloads } = actor;
    if (role === "admin" || (actor.mayClaim === true && access.claims === true)) return undefined;
    if (!access.roles.includes(role))
      throw new HttpError(403, `a key of the role ${role} may not make this request; it needs ${rolesOf(access)}`);
    if (tenants === undefined && workloads === undefined) return undefined;
    switch (access.whose) {
      case undefined:
        throw new HttpError(
          403,
          `this key reaches ${reachOf(actor)} only, and this request is about all ${tenants === undefined ? "workloads" : "tenants"}`,
        );
      case "own":
        return undefined;
      case "query": {
        const tenantId = queryText(request, "tenant", tenantIdRule);
        if (tenants === undefined) return undefined;
        if (tenantId === undefined)
          throw new HttpError(403, `this key reaches ${reachOf(actor)} only: name one of them with ?tenant=`);
        return requireTenant(actor, tenantId);
      }
      case "tenant": {
        const tenantId = requireTenant(actor, pathParam(request, "id", tenantIdRule));
        requirePathWorkload(actor, request, access);
        return tenants && tenantId;
      }
      case "instance": {
        const name = pathParam(request, "id", instanceNameRule);
        return findInstance(name, services).then(({ metadata: { labels } }) => {
          const tenantId = labels?.[label.tenant];
          if (!reachesWorkload(actor, labels?.[label.workload])) throw instanceNotFound(name);
          if (tenants === undefined) return undefined;
          if (tenantId === undefined || !reaches(actor, tenantId)) throw instanceNotFound(name);
          return tenantId;
        });
      }
      default:
        return access.whose satisfies never;
    }
  };
}

/** @throws HttpError 404 for a workload that the actor does not reach, 403 if the request is about several */
function requirePathWorkload(actor: Actor, request: RoutedRequest, { checksWorkload }: RouteAccess): void {
  if (actor.workloads === undefined || checksWorkload === true) return;
  if (request.params.workload === undefined)
    throw new HttpError(
      403,
      `this key reaches ${reachOf(actor)} only, and this request is about all workloads of the tenant`,
    );
  requireWorkload(actor, pathParam(request, "workload", workloadNameRule));
}

/** What a key of some tenants or workloads reaches. */
export function reachOf({ tenants, workloads }: Pick<Actor, "tenants" | "workloads">): string {
  const named = tenants?.length === 0 ? "no tenant" : tenants?.join(", ");
  if (workloads === undefined) return named ?? "all tenants";
  return [...(named === undefined ? [] : [`${named}, and there`]), `the workloads ${workloads.join(", ")}`].join(" ");
}

function rolesOf({ roles }: RouteAccess): string {
  return ["admin", ...roles].join(" or ");
}
