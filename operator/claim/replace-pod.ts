import type { Claim } from "../../crds/claim.ts";
import { claims } from "../../crds/kinds.ts";
import { nextRevision } from "./claim-pods.ts";
import { patchClaimStatus } from "./claim-status.ts";
import type { ClaimContext } from "./context.ts";

/**
 * Sends a claim back to `Pending` with a new revision: its pod is stale from then on, and the next run starts another.
 *
 * @param why what happened, for an Event; without it none is written
 */
export async function replacePod(
  claim: Claim,
  context: ClaimContext,
  why?: { reason: string; message: string },
): Promise<undefined> {
  const pending = await patchClaimStatus(
    claim,
    {
      phase: "Pending",
      reason: why?.reason ?? null,
      message: why?.message ?? null,
      podIncarnation: nextRevision(claim, context),
      instanceId: null,
      instanceUid: null,
      endpoint: null,
      source: null,
      resumedFrom: null,
      overlayId: null,
      timeline: null,
    },
    context,
  );
  context.timelines.restart(pending);
  if (why !== undefined) {
    const message = `${why.message}, a new one is started`;
    context.events.record({ resource: claims, object: pending, type: "Warning", reason: why.reason, message });
  }
  return undefined;
}
