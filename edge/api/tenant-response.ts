import type { Claim } from "../../crds/claim.ts";
import { isPodOf } from "../../crds/claim-pod.ts";
import { type ClaimResponse, claimResponse } from "../../crds/claim-response.ts";
import type { ClusterView } from "../cluster/cluster-cache.ts";
import { isClaimed } from "../cluster/is-claimed.ts";

/** A tenant as the REST API shows it, claims by workload. */
export function tenantResponse(
  tenantId: string,
  claims: Iterable<Claim>,
  pods: ClusterView["pods"],
): { tenantId: string; claims: ClaimResponse[] } {
  return { tenantId, claims: [...claims].sort(byWorkload).map((claim) => withoutOldEndpoint(claim, pods)) };
}

/** The operator may not have taken an endpoint from the claim yet that its pod has lost. A pod that shows no claim yet is as it was warm. */
function withoutOldEndpoint(claim: Claim, { store }: ClusterView["pods"]): ClaimResponse {
  const { endpoint, ...rest } = claimResponse(claim);
  if (endpoint === undefined) return rest;
  const pod = store.get(`${claim.metadata.namespace}/${rest.instanceId}`);
  const isOurs = pod !== undefined && (!isClaimed(pod) || isPodOf(pod, claim));
  return isOurs && pod.status?.podIP === endpoint.host ? { ...rest, endpoint } : rest;
}

function byWorkload(a: Claim, b: Claim): number {
  if (a.spec.workloadRef !== b.spec.workloadRef) return a.spec.workloadRef < b.spec.workloadRef ? -1 : 1;
  return a.metadata.name < b.metadata.name ? -1 : 1;
}
