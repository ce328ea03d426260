import type { Claim } from "../../crds/claim.ts";
import type { ClusterView } from "../cluster/cluster-cache.ts";
import { requireContact } from "../cluster/require-contact.ts";
import { jsonResponse } from "../http/json-response.ts";
import { pathParam } from "../http/path-param.ts";
import type { Route } from "../http/route.ts";
import { tenantIdRule } from "./name-rules.ts";
import { tenantResponse } from "./tenant-response.ts";

/** `GET /api/v1/tenants` and `GET /api/v1/tenants/{id}`, derived from the claims and pods that the watches show. */
export function tenantRoutes({ claims, pods }: Pick<ClusterView, "claims" | "pods">): Route[] {
  return [
    {
      method: "GET",
      path: "/api/v1/tenants/:id",
      handle(request) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        requireContact(claims, pods);
        return jsonResponse(tenantResponse(tenantId, claims.store.by("tenant", tenantId), pods));
      },
    },
    {
      method: "GET",
      path: "/api/v1/tenants",
      handle() {
        requireContact(claims, pods);
        const byTenant = new Map<string, Claim[]>();
        for (const claim of claims.store.values()) {
          const known = byTenant.get(claim.spec.tenantId);
          if (known === undefined) byTenant.set(claim.spec.tenantId, [claim]);
          else known.push(claim);
        }
        return jsonResponse([...byTenant.keys()].sort().map((id) => tenantResponse(id, byTenant.get(id) ?? [], pods)));
      },
    },
  ];
}
