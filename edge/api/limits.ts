import type { CurrentQuotas } from "../../crds/quotas/follow-quotas.ts";
import { tenantView } from "../access/route-access.ts";
import { requireFresh } from "../cluster/freshness.ts";
import type { ClusterCache } from "../cluster/watch-cluster.ts";
import { HttpError } from "../http/http-error.ts";
import { pathParam, tenantIdRule } from "../http/parameters.ts";
import { jsonResponse } from "../http/response.ts";
import type { ApiRoute } from "./api-route.ts";
import { usedBy } from "./claims/tenant-quota.ts";
import type { SnapshotServices } from "./snapshots/store.ts";
import { bytesOfTenant } from "./snapshots/usage.ts";

export interface LimitServices extends SnapshotServices {
  readonly quotas: CurrentQuotas;
  readonly cache: Pick<ClusterCache, "claims" | "workloads">;
}

/** `GET /api/v1/tenants/{id}/limits`. */
export function limitRoutes(services: LimitServices): ApiRoute[] {
  const { quotas, cache, namespace } = services;
  return [
    {
      method: "GET",
      path: "/api/v1/tenants/:id/limits",
      access: tenantView,
      summary: "A tenant's quota, and what it uses",
      description:
        "A limit that does not hold is absent. What is used is counted from the cached claims and the stored snapshots; the operator decides by its own count.",
      answer: "TenantLimits",
      errors: [503, 504],
      async handle(request, { clientGone = request.signal }) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        requireFresh(cache.claims, cache.workloads);
        const quota = quotas.current()?.of(tenantId);
        const problem = quotas.problem();
        const { role } = request.caller?.actor ?? { role: "admin" };
        // It can name other tenants.
        const shown = problem !== undefined && (role === "admin" || role === "platform") ? { problem } : {};
        if (quota === undefined) {
          const why = "problem" in shown ? `: ${problem}` : "";
          throw new HttpError(503, `the quotas of tenants are not known${why}`, { headers: { "retry-after": "1" } });
        }
        const { className, limits } = quota;
        const used = {
          ...usedBy(cache.claims.store.by("tenant", tenantId), { cache, namespace }),
          ...(limits.snapshotMb !== undefined && {
            snapshotMb: Math.ceil((await bytesOfTenant(tenantId, services, clientGone)) / 2 ** 20),
          }),
        };
        const counted = Object.entries(limits).map(([name, limit]) => [
          name,
          { limit, ...(name in used && { used: used[name as keyof typeof used] }) },
        ]);
        const answer = {
          tenantId,
          ...(className !== undefined && { class: className }),
          limits: Object.fromEntries(counted),
          ...shown,
        };
        return jsonResponse(answer);
      },
    },
  ];
}
