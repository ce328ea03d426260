import type { Claim } from "../../crds/claim.ts";
import { WAITING_FOR_ROOM } from "../room/context.ts";
import type { PodNeeds } from "../room/quota-room.ts";
import type { Asked, Place } from "../room/room-queue.ts";
import type { ClaimContext } from "./context.ts";
import type { Outcome } from "./outcome.ts";
import { goesOn } from "./tenant-room.ts";

/** What the queue is asked with for a claim and its pod. */
export function askedFor(claim: Claim, pod: PodNeeds, { serverNow }: Pick<ClaimContext, "serverNow">): Asked {
  const now = serverNow();
  return { pod, goesOn: goesOn(claim), since: waitingSince(claim) ?? now, now };
}

/** The wait of a claim whose turn it is not; once it has taken too long, its failure. */
export function waitForRoom(
  { place, size, since, full, againMs }: Place,
  { config, serverNow }: ClaimContext,
): Outcome {
  const leftMs = since + config.queueTimeoutMs - serverNow();
  const quota = full === undefined ? "the namespace's quota" : `quota "${full.name}" (${full.resources.join(", ")})`;
  if (leftMs <= 0) {
    const seconds = config.queueTimeoutMs / 1000;
    const waited = seconds === 0 ? "" : ` for ${seconds} s (TENANCY_QUEUE_TIMEOUT), at place ${place} of ${size}`;
    const message = `${quota} had no room for another instance${waited}: release one or raise the quota, then claim again`;
    return { next: "fail", reason: "QuotaExceeded", message };
  }
  const message = `place ${place} of ${size} in the queue for room in ${quota}: the claim continues by itself when other instances are released or the quota is raised`;
  return { next: "wait", reason: WAITING_FOR_ROOM, message, since, requeueAfterMs: Math.min(leftMs, againMs) };
}

/** Since when a claim has been Pending that a former leader has put into the queue, in milliseconds since the epoch. */
function waitingSince({ status }: Claim): number | undefined {
  if (status?.reason !== WAITING_FOR_ROOM) return undefined;
  const since = Date.parse(status.conditions?.find(({ type }) => type === "Reconciling")?.lastTransitionTime ?? "");
  return Number.isNaN(since) ? undefined : since;
}
