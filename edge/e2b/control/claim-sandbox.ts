import { type ClaimRequest, claimTenant } from "../../api/claims/claim-tenant.ts";
import { HttpError } from "../../http/http-error.ts";
import type { ControlServices } from "./control-services.ts";

/** The operator gives up a pod after five minutes on its node, unless it is told otherwise. */
const LIMIT_MS = 600_000;

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
  const { clock } = services;
  const until = clock.now() + LIMIT_MS;
  for (;;) {
    try {
      return await claimTenant(claim, services, options);
    } catch (error) {
      const isLate = error instanceof HttpError && error.status === 504;
      if (!isLate || clock.now() >= until) throw error;
    }
  }
}
