import { claimCall } from "./claim-call.ts";
import type { LoadClient } from "./load-client.ts";
import type { Tally } from "./tally.ts";

/**
 * Claims once and adds what became of it to the tally; never throws.
 *
 * @param claim.intendedAt when it was to be sent, on the clock of `performance.now`. @default now
 */
export async function timedClaim(
  edge: LoadClient,
  claim: { tenantId: string; workload: string; resume?: boolean; intendedAt?: number },
  tally: Tally,
): Promise<void> {
  const { intendedAt = performance.now() } = claim;
  const outcome = await claimCall(edge, claim);
  tally.add(outcome, performance.now() - intendedAt);
}
