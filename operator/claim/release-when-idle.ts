import type { Claim, ClaimStatus } from "../../crds/claim.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import type { Condition } from "../../crds/schema/condition.ts";
import type { ReconcileResult } from "../queue.ts";
import { backgroundUse } from "./background-use.ts";
import { otherConditions } from "./claim-status.ts";
import type { ClaimContext, SeenUse } from "./context.ts";

/** The condition of a claim that the operator has deleted for idleness. */
const IDLE = "Idle";

/**
 * A term often begins when the API server is back, and pods in use can look idle then. Edges reconnect within this
 * time, and repeat a failed write of activity after their interval.
 */
const SETTLE_MS = 10_000;

/** A use from before this operator's term no longer counts after this time without another use. */
const KNOWN_AFTER_MS = 15 * 60_000;

/**
 * Releases an Active claim whose pod has been unused for the pod's idle timeout. Before that, requeues the claim for
 * that moment, so that no claim is polled.
 */
export async function releaseWhenIdle(claim: Claim, pod: Pod, context: ClaimContext): Promise<ReconcileResult> {
  // A deletion before this failed.
  context.idleReleases.delete(claim.metadata.uid ?? "");
  const leftMs = timeLeftMs(claim, pod, context);
  if (leftMs === undefined) return undefined;
  if (leftMs > 0) return { requeueAfterMs: leftMs };
  const settleMs = context.startedAt + SETTLE_MS + recordIntervalMs(pod) - performance.now();
  if (settleMs > 0) return { requeueAfterMs: settleMs };
  const background = backgroundUse(claim, pod, context);
  if (!background.isKnown) return background.result;
  if (background.value !== undefined) {
    const seen = { ...seenUse(claim, pod, context), backgroundUsedAt: background.value };
    context.seenUses.set(pod.metadata.uid ?? "", seen);
  }
  const { cluster, log } = context;
  // Activity that the cache does not show yet counts too.
  const present = await cluster(pods).of(pod).get({ refresh: true });
  const presentLeftMs = timeLeftMs(claim, present, context) ?? Number.POSITIVE_INFINITY;
  if (presentLeftMs > 0) return { requeueAfterMs: presentLeftMs };
  const marked = await markForDiscard(claim, present, context);
  context.idleReleases.add(claim.metadata.uid ?? "");
  const deletion = await cluster(claims).of(marked).delete({ precondition: "resourceVersion" });
  if (deletion.error !== undefined) throw deletion.error;
  log.info({ claim: claim.metadata.name, pod: pod.metadata.name }, "claim released, its pod was idle");
  return undefined;
}

/**
 * Whether the operator deleted the claim for idleness, and the status that shows it, with a condition if it needs one:
 * a deletion carries no reason, and a successor does not know it. A successor that leads before the release has written
 * a status takes the release for a caller's, unless the files are discarded.
 */
export function idleRelease(
  claim: Claim,
  pods: readonly Pod[],
  { idleReleases }: Pick<ClaimContext, "idleReleases">,
): { readonly isIdle: boolean; readonly shown: Pick<ClaimStatus, "conditions"> } {
  const { conditions, observedGeneration = 0 } = claim.status ?? {};
  if (conditions?.some(({ type }) => type === IDLE)) return { isIdle: true, shown: {} };
  const isIdle = idleReleases.has(claim.metadata.uid ?? "") || pods.some((pod) => isDiscardedForIdleness(claim, pod));
  if (!isIdle) return { isIdle, shown: {} };
  const condition: Condition = {
    ...{ type: IDLE, status: "True", reason: IDLE, message: "the claim is released, its instance was idle" },
    lastTransitionTime: claim.metadata.deletionTimestamp ?? new Date().toISOString(),
    observedGeneration: claim.metadata.generation ?? observedGeneration,
  };
  return { isIdle, shown: { conditions: [...otherConditions(claim, IDLE), condition] } };
}

/** Whether the claim was released for idleness with `idle.action: destroy`, and its pod has not been used since. */
export function isDiscardedForIdleness(claim: Claim, pod: Pod): boolean {
  const idleSince = claim.metadata.annotations?.[annotation.discardIdleSince];
  return idleSince !== undefined && idleSince === lastStamp(claim, pod);
}

/**
 * Notes on the claim why it is deleted, since a deletion carries no reason. The note holds the time of the last use, in
 * case the deletion does not follow.
 */
async function markForDiscard(claim: Claim, pod: Pod, { cluster }: ClaimContext): Promise<Claim> {
  if (!isDiscardedWhenIdle(pod)) return claim;
  const annotations = { [annotation.discardIdleSince]: lastStamp(claim, pod) };
  return await cluster(claims).of(claim).patch({ metadata: { annotations } });
}

/** Whether a release for idleness or an expiry discards the files in the pod. */
export function isDiscardedWhenIdle({ metadata: { annotations = {} } }: Pod): boolean {
  return annotations[annotation.idleAction] === "destroy" && annotations[annotation.overlayDirs] !== undefined;
}

/**
 * Milliseconds until the claim counts as idle, negative if it is idle; undefined if it never is.
 *
 * The time of a use comes from the clock of the edge that wrote it, which may be behind this one. So the operator
 * measures for how long it has seen no other use. The age of a use from before its term is known only by that written
 * time: it is used after 15 minutes without another use, and never if idleness would lose the tenant's files.
 */
function timeLeftMs(claim: Claim, pod: Pod, context: ClaimContext): number | undefined {
  const limitMs = Number(pod.metadata.annotations?.[annotation.idleTimeoutSeconds]) * 1000;
  const used = lastUsed(claim, pod);
  if (!(limitMs > 0) || used === Number.NEGATIVE_INFINITY) return undefined;
  const { since, isFirst, backgroundUsedAt = Number.NEGATIVE_INFINITY } = seenUse(claim, pod, context);
  const now = performance.now();
  const isTold = isFirst || isDiscardedWhenIdle(pod);
  const toldLeftMs = isTold ? used + limitMs - context.serverNow() : Number.NEGATIVE_INFINITY;
  const countedMs = isFirst && !isDiscardedWhenIdle(pod) ? Math.min(limitMs, KNOWN_AFTER_MS) : limitMs;
  return Math.max(toldLeftMs, since + countedMs - now, backgroundUsedAt + limitMs - now);
}

/** The last use that the claim and the pod show. */
function seenUse({ status }: Claim, { metadata }: Pod, { seenUses }: ClaimContext): SeenUse {
  const { uid = "", annotations } = metadata;
  const use = `${status?.claimedAt} ${annotations?.[annotation.lastActivity]}`;
  const before = seenUses.get(uid);
  if (before?.use === use) return before;
  const seen = { use, since: performance.now(), isFirst: before === undefined };
  seenUses.set(uid, seen);
  return seen;
}

/** How often an edge records the activity of a pod that is in use. */
function recordIntervalMs({ metadata }: Pod): number {
  return Math.min(Number(metadata.annotations?.[annotation.idleTimeoutSeconds]) * 100, 30_000);
}

/** Milliseconds since the epoch; negative infinity before the claim has been Active. */
function lastUsed({ status }: Claim, { metadata }: Pod): number {
  const times = [status?.claimedAt, metadata.annotations?.[annotation.lastActivity]].map((time) =>
    Date.parse(time ?? ""),
  );
  return Math.max(...times.filter((time) => !Number.isNaN(time)));
}

/** The time of the last use as the edge wrote it. The edge's clock may differ: it can be before `claimedAt`. */
function lastStamp({ status }: Claim, { metadata }: Pod): string | undefined {
  return metadata.annotations?.[annotation.lastActivity] ?? status?.claimedAt;
}
