import type { Claim, ClaimSource } from "../../crds/claim.ts";
import { podEndpoint, statusOverlayId } from "../../crds/claims/claim-pod.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import { currentRevision, podRevisionOf } from "../pod/pod-identity.ts";
import { claimedPodState } from "../pod/program-runs.ts";
import { noticeOf, reportMissed } from "./archive-notice.ts";
import { patchClaimStatus } from "./claim-status.ts";
import type { ClaimContext } from "./context.ts";
import { requestedMs } from "./timeline.ts";

/**
 * Tells the tenant about its pod: `Active`, with what was stamped on the pod when it was bound. A warm pod that has
 * lost its sandbox, as its binding shows, is first waited for: the event of the binding starts the run that does so.
 */
export async function activateClaim(claim: Claim, pod: Pod, context: ClaimContext): Promise<Claim> {
  if (claimedPodState(pod, context).state.state !== "ready") return claim;
  const { annotations = {}, name, uid } = pod.metadata;
  const source = annotations[annotation.source] as ClaimSource;
  const claimedAt = new Date();
  const notice = noticeOf(claim, context);
  const timeline = context.timelines.of(claim, "Active", claimedAt);
  const active = await patchClaimStatus(
    claim,
    {
      phase: "Active",
      reason: null,
      message: notice ?? null,
      instanceId: name,
      instanceUid: uid ?? null,
      endpoint: podEndpoint(pod) ?? null,
      source,
      resumedFrom: annotations[annotation.resumedFrom] ?? null,
      overlayId: statusOverlayId(pod) ?? null,
      claimedAt: claimedAt.toISOString(),
      timeline,
      ...(podRevisionOf(pod) !== currentRevision(claim) && { podIncarnation: podRevisionOf(pod) }),
      attempt: claim.metadata.annotations?.[annotation.attempt] ?? null,
    },
    context,
  );
  const attributes = { "k8s.pod.name": name, "tenancy.claim.source": source };
  context.traces?.started(claim, { timeline, attributes });
  context.restores.forget(pod.metadata.uid ?? "");
  context.restoreFailures.delete(claim.metadata.uid ?? "");
  context.timelines.forget(claim.metadata.uid ?? "");
  const askedAt = requestedMs(claim);
  // The edge's clock may be ahead.
  if (askedAt !== undefined)
    context.metrics.claimSeconds.observe({ source }, Math.max(0, claimedAt.getTime() - askedAt) / 1000);
  await reportMissed(active, notice, context);
  return active;
}
