import type { Claim, ClaimPhase } from "../../../crds/claim.ts";
import { type ClaimKey, canonicalClaim } from "../../../crds/claims/claim-key.ts";
import { annotation } from "../../../crds/labels.ts";
import { claimLists, claimView } from "../../access/route-access.ts";
import { requireFresh } from "../../cluster/freshness.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import { pathParam, tenantIdRule, workloadNameRule } from "../../http/parameters.ts";
import { jsonResponse } from "../../http/response.ts";
import type { ApiRoute } from "../api-route.ts";
import type { Links } from "../links.ts";
import { eventsOf } from "../object-events.ts";
import type { ApiTypes } from "../openapi/schemas.ts";
import { createPages, filterQuery, filterSchemas, pageQuery, pageSchemas } from "../pages.ts";
import { withoutOldEndpoint } from "../tenants.ts";
import type { ClaimServices } from "./claim-services.ts";
import { waitsFor } from "./claim-tenant.ts";
import { findClaims, noClaim } from "./release-tenant.ts";

const DEFAULT_LIMIT = 500;
const phases: readonly ClaimPhase[] = ["Pending", "Active", "Releasing", "Released", "ReleaseFailed", "Error"];

interface ReadServices extends ClaimServices {
  readonly cache: ClusterCache;
  /** Undefined if this edge has no front door configured. */
  readonly links?: Links | undefined;
}

/** `GET /api/v1/claims` and `GET /api/v1/tenants/{id}/claims/{workload}`. */
export function readClaimRoutes(services: ReadServices): ApiRoute[] {
  const { cache } = services;
  const pages = createPages<Claim>(cache.claims, services);
  return [
    {
      method: "GET",
      path: "/api/v1/claims",
      access: claimLists,
      summary: "Claims of all tenants, in pages",
      description: "Sorted by the name of the claim object.",
      query: {
        ...pageSchemas({ default: DEFAULT_LIMIT }),
        ...filterSchemas(phases),
      },
      answer: ["ListedClaim"],
      tells: ["x-tenancy-version"],
      mayTell: ["x-tenancy-next"],
      errors: [503],
      handle(request) {
        const page = pageQuery(request, DEFAULT_LIMIT);
        const isWanted = filterQuery(request, phases);
        requireFresh(cache.claims, cache.pods);
        const { items, headers } = pages.read({
          ...page,
          matches: ({ spec, status }) =>
            isWanted({ tenant: spec.tenantId, workload: spec.workloadRef, phase: status?.phase }),
        });
        return jsonResponse(
          items.map((claim) => listedClaim(claim, cache)),
          { headers },
        );
      },
    },
    {
      method: "GET",
      path: "/api/v1/tenants/:id/claims/:workload",
      access: claimView,
      summary: "One claim, with the steps of its start and its Events",
      answer: "ClaimDetail",
      errors: [404, 503],
      async handle(request) {
        const tenantId = pathParam(request, "id", tenantIdRule);
        const workloadRef = pathParam(request, "workload", workloadNameRule);
        requireFresh(cache.claims, cache.pods);
        const key = { tenantId, workloadRef };
        const claim = canonicalClaim(await findClaims(key, services));
        if (claim === undefined) throw noClaim(key);
        const { uid, deletionTimestamp, annotations } = claim.metadata;
        const requestedAt = annotations?.[annotation.requestedAt];
        const { phase, timeline, conditions, resumedFrom, restoredFrom, snapshot, files, instanceUid } =
          claim.status ?? {};
        const outside = frontDoor(key, services);
        const why = phase === "Active" || phase === "Error" ? undefined : waitsFor(claim);
        const detail: ApiTypes["ClaimDetail"] = {
          ...listedClaim(claim, cache),
          ...outside,
          ...(requestedAt !== undefined && { requestedAt }),
          ...(deletionTimestamp !== undefined && { releasingSince: deletionTimestamp }),
          ...(timeline !== undefined && { timeline }),
          ...(conditions !== undefined && { conditions }),
          ...(resumedFrom !== undefined && { resumedFrom }),
          ...(restoredFrom !== undefined && { restoredFrom }),
          ...(snapshot !== undefined && { snapshot }),
          ...(files !== undefined && { files }),
          ...(why !== undefined && { waitsFor: why }),
          ...(await eventsOf([uid, instanceUid], services)),
        };
        return jsonResponse(detail);
      },
    },
  ];
}

/** The instance's address for visitors, and what admits them, if it has one. */
function frontDoor({ tenantId, workloadRef }: ClaimKey, { cache, namespace, links }: ReadServices) {
  const workload = cache.workloads.store.get({ namespace, name: workloadRef });
  const { expose = "none" } = workload?.spec.network ?? {};
  const url = links?.address({ workload: workloadRef, tenantId });
  return expose !== "none" && url !== undefined && { url, expose };
}

function listedClaim(claim: Claim, { pods }: Pick<ClusterCache, "pods">): ApiTypes["ListedClaim"] {
  const { metadata, spec } = claim;
  return {
    ...withoutOldEndpoint(claim, pods),
    name: metadata.name,
    uid: metadata.uid ?? "",
    createdAt: metadata.creationTimestamp ?? "",
    resume: spec.resume ?? false,
    ...(spec.resumeVersion !== undefined && { resumeVersion: spec.resumeVersion }),
  };
}
