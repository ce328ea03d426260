import { type ClaimRequest, claimTenant } from "../../api/claims/claim-tenant.ts";
import { HttpError } from "../../http/http-error.ts";
import type { ControlServices } from "./control-services.ts";

/**
 * Ten minutes, as a claim call waits 30 s: the operator gives up a pod after five minutes on its node, unless it is
 * told otherwise.
 */
const CLAIM_CALLS = 20;

/**
 * Claims for as long as the client waits. A claim call may be made again after its limit; a new sandbox has no id by
 * which its client could ask again.
 *
 * @throws HttpError as {@link claimTenant} does, 504 after ten minutes
 */
export async function claimSandbox(
  claim: ClaimRequest,
  services: ControlServices,
  options: Parameters<typeof claimTenant>[2],
): ReturnType<typeof claimTenant> {
  for (let left = CLAIM_CALLS - 1; ; left--) {
    try {
      return await claimTenant(claim, services, options);
    } catch (error) {
      const isLate = error instanceof HttpError && error.status === 504;
      if (!isLate || left === 0) throw error;
    }
  }
}
