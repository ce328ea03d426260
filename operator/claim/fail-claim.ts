import type { Claim } from "../../crds/claim.ts";
import { claims } from "../../crds/kinds.ts";
import { annotation } from "../../crds/labels.ts";
import type { claimErrorReasons } from "../metrics.ts";
import { nextRevision } from "./claim-pods.ts";
import { patchClaimStatus } from "./claim-status.ts";
import type { ClaimContext } from "./context.ts";

export type ClaimErrorReason = (typeof claimErrorReasons)[number];

/**
 * Puts a claim into `Error`. The revision moves on with the same write, so that a pod which the claim still has is
 * stale from then on and the next run deletes it, and a caller who claims again at once gets a new one.
 */
export async function failClaim(
  claim: Claim,
  context: ClaimContext,
  { reason, message }: { reason: ClaimErrorReason; message: string },
): Promise<undefined> {
  const timeline = context.timelines.of(claim, "Error", new Date());
  const failed = await patchClaimStatus(
    claim,
    {
      phase: "Error",
      reason,
      message,
      attempt: claim.metadata.annotations?.[annotation.attempt] ?? null,
      podIncarnation: nextRevision(claim, context),
      instanceId: null,
      instanceUid: null,
      overlayId: null,
      endpoint: null,
      source: null,
      resumedFrom: null,
      claimedAt: null,
      timeline,
    },
    context,
  );
  context.traces?.started(claim, { timeline, attributes: {}, error: reason });
  context.timelines.forget(claim.metadata.uid ?? "");
  context.metrics.claimErrors.inc({ reason });
  context.events.record({ resource: claims, object: failed, type: "Warning", reason, message });
  return undefined;
}
