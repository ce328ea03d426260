import type { Claim } from "../../crds/claim.ts";
import { claims } from "../../crds/kinds.ts";
import type { OperatorContext } from "../context.ts";
import type { PodState } from "../pod/pod-state.ts";
import { patchClaimStatus } from "./claim-status.ts";

/**
 * Says on an Active claim that its pod's program keeps failing, and takes that back when it runs again. The claim stays Active, since
 * its files are in that pod; whoever holds it can release it.
 */
export async function tellTrouble(claim: Claim, state: PodState, context: OperatorContext): Promise<void> {
  const trouble = state.state === "failed" ? { reason: state.reason, message: state.message } : undefined;
  if (trouble?.reason === claim.status?.reason || (state.state !== "failed" && state.state !== "ready")) return;
  const told = await patchClaimStatus(
    claim,
    { phase: "Active", reason: trouble?.reason ?? null, message: trouble?.message ?? null },
    context,
  );
  if (trouble !== undefined) context.events.record({ resource: claims, object: told, type: "Warning", ...trouble });
}
