import type { Claim } from "../../crds/claim.ts";
import { claims } from "../../crds/kinds.ts";
import { annotation } from "../../crds/labels.ts";
import type { Condition } from "../../crds/schema/condition.ts";
import { readClaimPod } from "./claim-pods.ts";
import { otherConditions, patchClaimStatus } from "./claim-status.ts";
import type { ClaimContext } from "./context.ts";
import { isDiscardedWhenIdle } from "./release-when-idle.ts";

/** How long before its end a claim says that it expires. */
const NOTICE_MS = 60_000;

/** The condition of a claim that expires within a minute. A new leader sees by it that the Event was recorded. */
export const EXPIRES_SOON = "ExpiresSoon";

/** What a claim's expiry asks for at a moment. */
export type ExpiryStep =
  /** The claim does not expire. */
  | { readonly kind: "none" }
  | { readonly kind: "wait"; readonly forMs: number }
  /** The status is to show the expiry, and whether it is less than a minute away. */
  | { readonly kind: "show"; readonly isSoon: boolean }
  | { readonly kind: "release" };

/**
 * Decides about a claim that is not being released.
 *
 * @param now the API server's time in milliseconds since the epoch
 */
export function expiryStep({ spec, status }: Claim, now: number): ExpiryStep {
  const leftMs = Date.parse(spec.expiresAt ?? "") - now;
  if (leftMs <= 0) return { kind: "release" };
  const expires = !Number.isNaN(leftMs);
  const saysSoon = status?.conditions?.some(({ type }) => type === EXPIRES_SOON) === true;
  const isSoon = expires && leftMs <= NOTICE_MS && (saysSoon || isWorthNotice({ spec, status }));
  // The first write of a status shows the expiry too.
  const isShown = status?.observedGeneration === undefined || status.expiresAt === spec.expiresAt;
  if (!isShown || isSoon !== saysSoon) return { kind: "show", isSoon };
  if (!expires) return { kind: "none" };
  return { kind: "wait", forMs: leftMs > NOTICE_MS ? leftMs - NOTICE_MS : leftMs };
}

/** A session that lasts less than a minute from its start is not announced. */
function isWorthNotice({ spec, status }: Pick<Claim, "spec"> & { status: Claim["status"] }): boolean {
  if (status?.phase !== "Active") return false;
  return Date.parse(spec.expiresAt ?? "") - Date.parse(status.claimedAt ?? "") > NOTICE_MS;
}

/**
 * Follows the expiry of a claim: shows it, announces it a minute before, and then releases the claim, even while it is
 * in use. One timer leads from each step to the next; no claim is polled.
 *
 * @returns whether the claim was written, so that its event starts the next run; otherwise when to look again
 */
export async function followExpiry(
  claim: Claim,
  context: ClaimContext,
): Promise<{ isWritten: boolean; requeueAfterMs?: number }> {
  const step = expiryStep(claim, context.serverNow());
  switch (step.kind) {
    case "none":
      return { isWritten: false };
    case "wait":
      return { isWritten: false, requeueAfterMs: step.forMs };
    case "show":
      await showExpiry(claim, step.isSoon, context);
      return { isWritten: true };
    case "release":
      await releaseExpired(claim, context);
      return { isWritten: true };
    default:
      return step satisfies never;
  }
}

/** Whether the claim was released because it expired, and its workload discards the files then. */
export function isDiscardedForExpiry({ metadata, spec }: Claim): boolean {
  const expired = metadata.annotations?.[annotation.discardExpired];
  return expired !== undefined && expired === spec.expiresAt;
}

async function showExpiry(claim: Claim, isSoon: boolean, context: ClaimContext): Promise<void> {
  const { expiresAt } = claim.spec;
  const before = claim.status?.conditions?.find(({ type }) => type === EXPIRES_SOON);
  const others = otherConditions(claim, EXPIRES_SOON);
  const message = `the claim expires at ${expiresAt}: it is released then, even while it is in use, unless it is extended`;
  const condition: Condition = {
    ...{ type: EXPIRES_SOON, status: "True", reason: EXPIRES_SOON, message },
    lastTransitionTime: before?.lastTransitionTime ?? new Date(context.serverNow()).toISOString(),
    observedGeneration: claim.metadata.generation ?? 0,
  };
  const written = await patchClaimStatus(claim, { conditions: isSoon ? [...others, condition] : others }, context);
  if (isSoon && before === undefined)
    context.events.record({ resource: claims, object: written, type: "Normal", reason: EXPIRES_SOON, message });
}

async function releaseExpired(claim: Claim, context: ClaimContext): Promise<void> {
  const { cluster, events, log } = context;
  const { expiresAt = "" } = claim.spec;
  const pod = await readClaimPod(claim, context);
  // A deletion cannot say why it happened.
  const marked =
    pod !== undefined && isDiscardedWhenIdle(pod) && !isDiscardedForExpiry(claim)
      ? await cluster(claims)
          .of(claim)
          .patch({ metadata: { annotations: { [annotation.discardExpired]: expiresAt } } })
      : claim;
  // A claim that was extended since it was read stays.
  const deletion = await cluster(claims).of(marked).delete({ precondition: "resourceVersion" });
  if (deletion.error !== undefined) throw deletion.error;
  const message = `the claim expired at ${expiresAt} and is released`;
  events.record({ resource: claims, object: marked, type: "Normal", reason: "Expired", message });
  log.info({ claim: claim.metadata.name, expiresAt }, "claim released, it had expired");
}
