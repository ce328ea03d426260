import type { Claim } from "../../../crds/claim.ts";
import { type ClaimKey, hasKey } from "../../../crds/claims/claim-key.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { CurrentQuotas } from "../../../crds/quotas/follow-quotas.ts";
import { holdsInstance, overQuota, sum, type Usage, usageOf, usageShown } from "../../../crds/quotas/room.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import { HttpError } from "../../http/http-error.ts";

/** Refuses claim calls that the operator would refuse for their tenant's quota, before they write anything. */
export interface TenantQuotaCheck {
  /** @throws HttpError 429 with `Retry-After` that says which limit it is, its value, and what is used */
  check(key: ClaimKey): void;
  /** Notes that the operator has refused a start of the tenant for its rate. */
  noteRefusal(key: ClaimKey, message: string): void;
}

export const RETRY_AFTER = { "retry-after": "5" };

/** A tenant that starts too often costs writes once in this time. */
const KEPT_MS = 1000;

/** The cache can be some milliseconds behind; the operator decides. */
export function createTenantQuotaCheck({
  quotas,
  cache,
  namespace,
  clock,
}: {
  quotas: Pick<CurrentQuotas, "current">;
  cache: Pick<ClusterCache, "claims" | "workloads">;
  namespace: string;
  clock: Pick<Clock, "now">;
}): TenantQuotaCheck {
  /** By tenant, the latest last. */
  const refused = new Map<string, { readonly until: number; readonly message: string }>();

  return {
    check(key) {
      const { tenantId, workloadRef } = key;
      const known = refused.get(tenantId);
      if (known !== undefined && clock.now() < known.until) throw overLimit(known.message);
      const quota = quotas.current()?.of(tenantId);
      if (quota === undefined || Object.keys(quota.limits).length === 0) return;
      const workload = cache.workloads.store.get({ namespace, name: workloadRef });
      // The call itself says that it does not exist.
      if (workload === undefined) return;
      const others = [...cache.claims.store.by("tenant", tenantId)].filter((claim) => !hasKey(claim, key));
      const used = usedBy(others, { cache, namespace });
      const over = overQuota({ tenantId, quota }, { used, needs: usageOf(workload) });
      if (over !== undefined) throw overLimit(over);
    },
    noteRefusal({ tenantId }, message) {
      refused.delete(tenantId);
      refused.set(tenantId, { until: clock.now() + KEPT_MS, message });
      for (const [other, { until }] of refused) {
        if (clock.now() < until) break;
        refused.delete(other);
      }
    },
  };
}

/** What a tenant's claims take of its quota. */
export function usedBy(
  claims: Iterable<Claim>,
  { cache, namespace }: { cache: Pick<ClusterCache, "workloads">; namespace: string },
): Usage {
  const usages: Usage[] = [];
  for (const claim of claims) {
    if (!holdsInstance(claim)) continue;
    const workload = () => cache.workloads.store.get({ namespace, name: claim.spec.workloadRef });
    usages.push(usageShown(claim) ?? usageOf(workload()));
  }
  return sum(usages);
}

function overLimit(message: string): HttpError {
  return new HttpError(429, message, { headers: RETRY_AFTER });
}
