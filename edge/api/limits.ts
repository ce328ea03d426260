import type { CurrentQuotas } from "../../crds/quotas/follow-quotas.ts";
import type { TenantQuota, TenantQuotas } from "../../crds/quotas/tenant-quotas.ts";
import { tenantView } from "../access/route-access.ts";
import { requireFresh } from "../cluster/freshness.ts";
import type { ClusterCache } from "../cluster/watch-cluster.ts";
import { HttpError } from "../http/http-error.ts";
import { pathParam, tenantIdRule } from "../http/parameters.ts";
import { jsonResponse } from "../http/response.ts";
import type { RoutedRequest } from "../http/router.ts";
import type { ApiRoute } from "./api-route.ts";
import { usedBy } from "./claims/tenant-quota.ts";
import type { SnapshotServices } from "./snapshots/store.ts";
import { bytesOf, entriesOfTenant } from "./snapshots/usage.ts";

export interface LimitServices extends SnapshotServices {
  readonly quotas: CurrentQuotas;
  readonly cache: Pick<ClusterCache, "claims" | "workloads">;
}

/** `GET /api/v1/tenants/{id}/limits`. */
export function limitRoutes(services: LimitServices): ApiRoute[] {
  const { cache } = services;
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
        const { known, problem } = knownQuotas(request, services);
        const quota = known.of(tenantId);
        const bytes =
          quota.limits.snapshotMb === undefined ? 0 : bytesOf(await entriesOfTenant(tenantId, services, clientGone));
        return jsonResponse({
          tenantId,
          ...shownQuota(tenantId, { quota, bytes, services }),
          ...(problem !== undefined && { problem }),
        });
      },
    },
  ];
}

/**
 * The quotas that hold, and what is wrong with the present ones, if the caller may see that: it can name any tenant.
 *
 * @throws HttpError 503 if there never were valid ones
 */
export function knownQuotas(
  request: RoutedRequest,
  { quotas }: Pick<LimitServices, "quotas">,
): { known: TenantQuotas; problem: string | undefined } {
  const { role } = request.caller?.actor ?? { role: "admin" };
  const problem = role === "admin" || role === "platform" ? quotas.problem() : undefined;
  const known = quotas.current();
  if (known !== undefined) return { known, problem };
  const why = problem === undefined ? "" : `: ${problem}`;
  throw new HttpError(503, `the quotas of tenants are not known${why}`, { headers: { "retry-after": "1" } });
}

/**
 * A tenant's class and limits, with what is used of them.
 *
 * @param of.bytes of its saved files
 */
export function shownQuota(
  tenantId: string,
  of: { quota: TenantQuota; bytes: number; services: Pick<LimitServices, "cache" | "namespace"> },
): { class?: string; limits: Record<string, { limit: number; used?: number }> } {
  const {
    quota: { className, limits },
    bytes,
    services: { cache, namespace },
  } = of;
  const used = {
    ...usedBy(cache.claims.store.by("tenant", tenantId), { cache, namespace }),
    snapshotMb: Math.ceil(bytes / 2 ** 20),
  };
  const counted = Object.entries(limits).map(([name, limit]) => [
    name,
    { limit, ...(name in used && { used: used[name as keyof typeof used] }) },
  ]);
  return { ...(className !== undefined && { class: className }), limits: Object.fromEntries(counted) };
}
