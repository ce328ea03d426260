import { isDeepStrictEqual } from "node:util";
import type { Claim, ClaimSource } from "../../crds/claim.ts";
import { isDestroyed, podEndpoint, statusOverlayId } from "../../crds/claims/claim-pod.ts";
import { NetworkError } from "../../crds/client/api-error.ts";
import { claims } from "../../crds/kinds.ts";
import { annotation } from "../../crds/labels.ts";
import { resourcesOf } from "../../crds/quotas/room.ts";
import type { UsageEnd } from "../../crds/usage/usage-record.ts";
import { currentRevision, podRevisionOf } from "../pod/pod-identity.ts";
import { claimedPodState } from "../pod/program-runs.ts";
import { zoneOf } from "../pod/zones.ts";
import type { ReconcileResult } from "../queue.ts";
import { noticeOf, reportMissed } from "./archive-notice.ts";
import { nextRevision } from "./claim-pods.ts";
import { type ClaimStatusPatch, patchClaimStatus } from "./claim-status.ts";
import type { ClaimContext } from "./context.ts";
import { FIRST_REPORT_MS, type Outcome, soonest } from "./outcome.ts";
import { leaveRoom } from "./tenant-room.ts";
import { requestedMs } from "./timeline.ts";

/** Writes the outcome of a step. */
export async function conclude(claim: Claim, outcome: Outcome, context: ClaimContext): Promise<ReconcileResult> {
  if (outcome === undefined) return undefined;
  const { status, after, requeueAfterMs } = writeOf(claim, outcome, context);
  if (status !== undefined) {
    const { uid = "", resourceVersion } = claim.metadata;
    if (status.usageSince === null) await context.usage.endUse(claim, usageEndOf(claim, outcome));
    const written = await patchClaimStatus(claim, status, context).catch((error: unknown) => {
      if (after !== undefined && error instanceof NetworkError && error.requestWasSent)
        context.unansweredWrites.set(uid, { status, after, resourceVersion });
      throw error;
    });
    context.unansweredWrites.delete(uid);
    await after?.(written);
  }
  return soonest(requeueAfterMs, outcome.requeueAfterMs);
}

function usageEndOf(claim: Claim, outcome: Exclude<Outcome, undefined>): UsageEnd {
  if (!("next" in outcome)) return "lost";
  if (outcome.next === "fail") return "failed";
  if (isDestroyed(claim)) return "destroyed";
  return outcome.next === "replace" && outcome.why?.reason === "Moved" ? "moved" : "lost";
}

/** Does what follows a write without an answer, such as its Event, once the claim shows that write. */
export async function concludeUnanswered(claim: Claim, { unansweredWrites }: ClaimContext): Promise<void> {
  const { uid = "", resourceVersion } = claim.metadata;
  const write = unansweredWrites.get(uid);
  if (write === undefined || write.resourceVersion === resourceVersion) return;
  unansweredWrites.delete(uid);
  const shown: Record<string, unknown> = claim.status ?? {};
  if (Object.entries(write.status).every(([field, value]) => isDeepStrictEqual(shown[field] ?? null, value ?? null)))
    await write.after(claim);
}

/** A write of the status, and what to do after it. */
interface StatusWrite {
  readonly status?: ClaimStatusPatch;
  readonly after?: (written: Claim) => Promise<void> | void;
  readonly requeueAfterMs?: number;
}

function writeOf(claim: Claim, outcome: Exclude<Outcome, undefined>, context: ClaimContext): StatusWrite {
  if (!("next" in outcome)) return {};
  switch (outcome.next) {
    case undefined:
      return {};
    case "fail":
      return failed(claim, outcome, context);
    case "replace":
      return replaced(claim, outcome, context);
    case "write":
      return { status: outcome.status };
    case "activate":
      return activated(claim, outcome, context);
    case "wait":
      return waiting(claim, outcome, context);
    default:
      return outcome satisfies never;
  }
}

/**
 * Puts a claim into `Error`. The same write increases the revision: a pod that the claim still has becomes stale, the
 * next run deletes it, and a caller who claims again at once gets a new one.
 */
function failed(
  claim: Claim,
  { reason, message }: Extract<Outcome, { next: "fail" }>,
  context: ClaimContext,
): StatusWrite {
  const timeline = context.timelines.of(claim, "Error", new Date());
  leaveRoom(claim, context);
  context.roomQueue.leave(claim.metadata.uid ?? "");
  return {
    status: {
      phase: "Error",
      reason,
      message,
      attempt: claim.metadata.annotations?.[annotation.attempt] ?? null,
      podIncarnation: nextRevision(claim, context),
      instanceId: null,
      instanceUid: null,
      resources: null,
      overlayId: null,
      programRun: null,
      endpoint: null,
      zone: null,
      source: null,
      resumedFrom: null,
      restoredFrom: null,
      claimedAt: null,
      usageSince: null,
      timeline,
    },
    async after(written) {
      context.traces?.started(claim, { timeline, attributes: {}, error: reason });
      context.timelines.forget(claim.metadata.uid ?? "");
      context.metrics.claimErrors.inc({ reason });
      context.events.record({ resource: claims, object: written, type: "Warning", reason, message });
      await context.claimEvents?.failed(written);
    },
  };
}

/**
 * Sends a claim back to `Pending` with a new revision: its pod becomes stale, and the next run starts another.
 */
function replaced(
  claim: Claim,
  { why, saved }: Extract<Outcome, { next: "replace" }>,
  context: ClaimContext,
): StatusWrite {
  const revision = nextRevision(claim, context);
  if (saved === null) leaveRoom(claim, context);
  return {
    status: {
      phase: "Pending",
      reason: why?.reason ?? null,
      message: why?.message ?? null,
      podIncarnation: revision,
      instanceId: null,
      instanceUid: null,
      resources: null,
      endpoint: null,
      zone: null,
      source: null,
      resumedFrom: null,
      restoredFrom: null,
      overlayId: null,
      programRun: null,
      usageSince: null,
      timeline: null,
      ...(saved !== undefined && { sessionSnapshot: saved }),
      // The files of the session are given up: the next pod begins another one.
      ...(saved === null && { sessionStart: revision }),
    },
    after(written) {
      context.timelines.restart(written);
      if (why === undefined) return;
      const message = `${why.message}; a new one is started`;
      const type = saved == null ? "Warning" : "Normal";
      context.events.record({ resource: claims, object: written, type, reason: why.reason, message });
    },
  };
}

/**
 * Makes the claim `Active`, with the values that its pod got at the binding. If the answer to the binding shows that a
 * warm pod has lost its sandbox, the claim waits for the pod first: the event of the binding starts the run for that.
 */
function activated(
  claim: Claim,
  { pod, programRun }: Extract<Outcome, { next: "activate" }>,
  context: ClaimContext,
): StatusWrite {
  if (claimedPodState(pod, context).state.state !== "ready") return {};
  const { annotations = {}, name, uid } = pod.metadata;
  const source = annotations[annotation.source] as ClaimSource;
  const claimedAt = new Date();
  const notice = noticeOf(claim, context);
  const timeline = context.timelines.of(claim, "Active", claimedAt);
  return {
    status: {
      phase: "Active",
      reason: null,
      message: notice ?? null,
      instanceId: name,
      instanceUid: uid ?? null,
      resources: resourcesOf(pod) ?? null,
      endpoint: podEndpoint(pod) ?? null,
      zone: zoneOf(pod, context) ?? null,
      source,
      resumedFrom: annotations[annotation.resumedFrom] ?? null,
      restoredFrom: annotations[annotation.restoredFrom] ?? null,
      overlayId: statusOverlayId(pod) ?? null,
      ...(programRun !== undefined && { programRun }),
      claimedAt: claimedAt.toISOString(),
      ...(context.usage.isOn && { usageSince: claimedAt.toISOString() }),
      timeline,
      ...(podRevisionOf(pod) !== currentRevision(claim) && { podIncarnation: podRevisionOf(pod) }),
      attempt: claim.metadata.annotations?.[annotation.attempt] ?? null,
    },
    async after(written) {
      const attributes = { "k8s.pod.name": name, "tenancy.claim.source": source };
      context.traces?.started(claim, { timeline, attributes });
      context.restores.forget(uid ?? "");
      context.restoreFailures.delete(claim.metadata.uid ?? "");
      context.timelines.forget(claim.metadata.uid ?? "");
      const askedAt = requestedMs(claim);
      // The edge's clock may be ahead.
      if (askedAt !== undefined)
        context.metrics.claimSeconds.observe({ source }, Math.max(0, claimedAt.getTime() - askedAt) / 1000);
      const reason = context.notices.get(claim.metadata.uid ?? "")?.eventReason;
      if (reason !== undefined && notice !== undefined)
        context.events.record({ resource: claims, object: written, type: "Warning", reason, message: notice });
      await Promise.all([context.claimEvents?.active(written), reportMissed(written, notice, context)]);
    },
  };
}

/** Writes to a claim what it waits for; the event that ends the wait starts the next run. */
function waiting(
  claim: Claim,
  { reason, message, since = 0 }: Extract<Outcome, { next: "wait" }>,
  { serverNow }: ClaimContext,
): StatusWrite {
  const leftMs = since + FIRST_REPORT_MS - serverNow();
  if (leftMs > 0) return { requeueAfterMs: leftMs };
  return claim.status?.message === message ? {} : { status: { phase: "Pending", reason, message } };
}
