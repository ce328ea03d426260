import type { ClaimResponse } from "../../../crds/claims/claim-response.ts";
import type { LoadClient } from "./load-client.ts";
import type { Tally } from "./tally.ts";

/** How a claim call ended. */
export type ClaimOutcome =
  | { readonly kind: "answered"; readonly source: string; readonly instanceId: string }
  | { readonly kind: "failed"; readonly why: string };

/** Claims a workload for a tenant by the REST API; never throws. */
export async function claimCall(
  edge: LoadClient,
  { tenantId, workload, resume = false }: { tenantId: string; workload: string; resume?: boolean | undefined },
): Promise<ClaimOutcome> {
  try {
    const { status, text } = await edge.call("POST", `/api/v1/tenants/${tenantId}/claim`, { workload, resume });
    const answer = JSON.parse(text) as Partial<ClaimResponse> & { error?: string };
    if (status !== 201) return failed(`${status} ${answer.error ?? text}`);
    if (answer.phase !== "Active" || answer.instanceId === undefined) return failed(`201 but ${answer.phase}`);
    return { kind: "answered", source: answer.source ?? "?", instanceId: answer.instanceId };
  } catch (error) {
    return failed(error instanceof Error ? error.message : String(error));
  }
}

/** Names in a reason would make each one a reason of its own. */
function failed(why: string): ClaimOutcome {
  return { kind: "failed", why: why.replace(/"[^"]*"/g, '"…"').slice(0, 200) };
}

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
