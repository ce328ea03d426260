import type { Claim } from "../../crds/claim.ts";
import { isPodOf } from "../../crds/claims/claim-pod.ts";
import { type ClaimResponse, claimResponse } from "../../crds/claims/claim-response.ts";
import { reachesWorkload } from "../access/actor.ts";
import { claimsView, serviceView } from "../access/route-access.ts";
import { requireFresh } from "../cluster/freshness.ts";
import { isClaimed } from "../cluster/slim-pod.ts";
import type { ClusterCache } from "../cluster/watch-cluster.ts";
import { pathParam, tenantIdRule } from "../http/parameters.ts";
import { jsonResponse, versionHeader } from "../http/response.ts";
import type { ApiRoute } from "./api-route.ts";

/** `GET /api/v1/tenants` and `GET /api/v1/tenants/{id}`, derived from the cached claims and pods. */
export function tenantRoutes({ claims, pods }: Pick<ClusterCache, "claims" | "pods">): ApiRoute[] {
  return [
    {
      method: "GET",
      path: "/api/v1/tenants/:id",
      access: claimsView,
      summary: "One tenant and its claims",
      answer: "Tenant",
      errors: [503],
      handle(request) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        requireFresh(claims, pods);
        const { workloads } = request.caller?.actor ?? {};
        const own = claims.store.by("tenant", tenantId);
        const reached =
          workloads === undefined
            ? own
            : [...own].filter(({ spec }) => reachesWorkload({ workloads }, spec.workloadRef));
        return jsonResponse(tenantResponse(tenantId, reached, pods));
      },
    },
    {
      method: "GET",
      path: "/api/v1/tenants",
      access: serviceView,
      summary: "All tenants with a claim",
      answer: ["Tenant"],
      tells: ["x-tenancy-version"],
      errors: [503],
      handle() {
        requireFresh(claims, pods);
        const byTenant = new Map<string, Claim[]>();
        for (const claim of claims.store.values()) {
          const known = byTenant.get(claim.spec.tenantId);
          if (known === undefined) byTenant.set(claim.spec.tenantId, [claim]);
          else known.push(claim);
        }
        return jsonResponse(
          [...byTenant.keys()].sort().map((id) => tenantResponse(id, byTenant.get(id) ?? [], pods)),
          { headers: versionHeader(claims.versions().seen) },
        );
      },
    },
  ];
}

/** A tenant as shown by the REST API, with its claims sorted by workload. */
function tenantResponse(
  tenantId: string,
  claims: Iterable<Claim>,
  pods: ClusterCache["pods"],
): { tenantId: string; claims: ClaimResponse[] } {
  return { tenantId, claims: [...claims].sort(byWorkload).map((claim) => withoutOldEndpoint(claim, pods)) };
}

/**
 * The operator may not have removed an endpoint yet that the claim's pod has lost. A pod without a claim label is still
 * shown as it was when warm.
 */
export function withoutOldEndpoint(claim: Claim, { store }: ClusterCache["pods"]): ClaimResponse {
  const { endpoint, ...rest } = claimResponse(claim);
  if (endpoint === undefined) return rest;
  const pod = store.get({ namespace: claim.metadata.namespace, name: rest.instanceId ?? "" });
  const isOurs = pod !== undefined && (!isClaimed(pod) || isPodOf(pod, claim));
  return isOurs && pod.status?.podIP === endpoint.host ? { ...rest, endpoint } : rest;
}

function byWorkload(a: Claim, b: Claim): number {
  if (a.spec.workloadRef !== b.spec.workloadRef) return a.spec.workloadRef < b.spec.workloadRef ? -1 : 1;
  return a.metadata.name < b.metadata.name ? -1 : 1;
}
