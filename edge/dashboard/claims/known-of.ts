import type { ApiTypes } from "../../api/openapi/schemas.ts";
import type { Known } from "../parts/health.ts";

/**
 * The fields that determine a claim's health. An Active claim without an endpoint has lost its pod, or the pod's
 * address.
 */
export function knownOf({ phase, reason, endpoint }: Pick<ApiTypes["Claim"], "phase" | "reason" | "endpoint">): Known {
  return { phase, reason, ready: phase !== "Active" || endpoint !== undefined };
}
