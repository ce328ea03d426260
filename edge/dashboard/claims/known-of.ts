import type { ApiTypes } from "../../api/openapi/schemas.ts";
import type { Known } from "../parts/health.ts";

/** What says how a claim fares; an Active one without an endpoint has lost its pod, or the pod's address. */
export function knownOf({ phase, reason, endpoint }: Pick<ApiTypes["Claim"], "phase" | "reason" | "endpoint">): Known {
  return { phase, reason, ready: phase !== "Active" || endpoint !== undefined };
}
