import type { Claim, ClaimPhase, ClaimSource } from "../claim.ts";
import { isDestroyed } from "./claim-pod.ts";

/** The claim response object, then `workloadRef`, `reason` and `message`; absent until known. */
export interface ClaimResponse {
  tenantId: string;
  phase: ClaimPhase;
  /** Name of the pod. */
  instanceId?: string;
  /** IP of the pod and port of the container. Only for an Active claim whose pod has an address. */
  endpoint?: { host: string; port: number };
  /** Of the pod's node. */
  zone?: string;
  source?: ClaimSource;
  /** ISO 8601. */
  claimedAt?: string;
  /** RFC 3339: when it is released, even while it is in use. */
  expiresAt?: string;
  /** As on the pod, without their prefix. */
  labels?: Record<string, string>;
  workloadRef: string;
  reason?: string;
  message?: string;
}

/** Shows a claim as the REST API and the event stream do. */
export function claimResponse(claim: Claim): ClaimResponse {
  const { spec, status } = claim;
  const endpoint = status?.phase === "Active" && !isDestroyed(claim) ? status.endpoint : undefined;
  return {
    tenantId: spec.tenantId,
    phase: status?.phase ?? "Pending",
    ...(status?.instanceId !== undefined && { instanceId: status.instanceId }),
    ...(endpoint !== undefined && { endpoint: { host: endpoint.host, port: endpoint.port } }),
    ...(status?.zone !== undefined && { zone: status.zone }),
    ...(status?.source !== undefined && { source: status.source }),
    ...(status?.claimedAt !== undefined && { claimedAt: status.claimedAt }),
    ...(spec.expiresAt !== undefined && { expiresAt: spec.expiresAt }),
    ...(spec.labels !== undefined && { labels: spec.labels }),
    workloadRef: spec.workloadRef,
    ...(status?.reason !== undefined && { reason: status.reason }),
    ...(status?.message !== undefined && { message: status.message }),
  };
}
