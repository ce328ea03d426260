import type { Claim } from "../../crds/claim.ts";
import { keyOf } from "../../crds/client/watch/store.ts";
import { annotation } from "../../crds/labels.ts";
import { holdsInstance, overQuota, placeOf, sum, type Usage, usageOf, usageShown } from "../../crds/quotas/room.ts";
import { QUOTAS_CONFIG_MAP } from "../../crds/quotas/tenant-quotas.ts";
import type { Workload } from "../../crds/workload.ts";
import { END_GRACE_SECONDS } from "../pod/render-pod.ts";
import type { ClaimContext } from "./context.ts";
import { type Outcome, RECHECK } from "./outcome.ts";

/** What this leader has given to tenants with a quota, until their claims say it. */
export interface TenantRoom {
  /** By claim uid. */
  readonly given: Map<string, Usage>;
  /**
   * By tenant, the one with the latest start last: when the instances of the last minute were given, by the API
   * server's clock in milliseconds since the epoch.
   */
  readonly starts: Map<string, number[]>;
  /** What pods take that were deleted and may not have ended yet, oldest first. */
  readonly ending: Set<{ readonly tenantId: string; readonly usage: Usage; readonly until: number }>;
}

export function createTenantRoom(): TenantRoom {
  return { given: new Map(), starts: new Map(), ending: new Set() };
}

/** The reason of a claim that waits for valid quotas. */
export const QUOTAS_INVALID = "QuotasInvalid";

const MINUTE_MS = 60_000;

/**
 * Takes room for a claim's instance from its tenant's quota. A claim that has taken it keeps it until it fails or is
 * gone.
 *
 * Only the leader gives instances, and nothing is awaited between the count and the note, so no number of claims at
 * once exceeds a limit. A claim that was Active and goes on with another pod needs no room: a lower limit ends nothing.
 *
 * @returns why the claim gets no instance now
 */
export function takeRoom(claim: Claim, workload: Workload, context: ClaimContext): Outcome {
  const { room, informers, serverNow } = context;
  const { uid = "" } = claim.metadata;
  const { tenantId } = claim.spec;
  if (room.given.has(uid) || goesOn(claim)) return undefined;
  // Its deletion came while the workload was read.
  if (informers.claims.store.get(keyOf(claim))?.metadata.uid !== uid) return RECHECK;
  const quotas = informers.quotas.current();
  if (quotas === undefined) {
    const message = `the quotas of tenants cannot be read: correct ConfigMap "${QUOTAS_CONFIG_MAP}", or delete it to set no limits (${informers.quotas.problem()})`;
    return { next: "wait", reason: QUOTAS_INVALID, message };
  }
  const quota = quotas.of(tenantId);
  if (Object.keys(quota.limits).length === 0) return undefined;
  const needs = usageOf(workload);
  const others = [...informers.claims.store.by("tenant", tenantId)].filter(({ metadata }) => metadata.uid !== uid);
  const used = sum(others.flatMap((other) => usedBy(other, context) ?? []));
  const over = overQuota({ tenantId, quota }, { used, needs });
  if (over !== undefined) return { next: "fail", reason: "TenantQuotaExceeded", message: over };
  const now = serverNow();
  const ending = endingOf(tenantId, { now, room });
  if (overQuota({ tenantId, quota }, { used: sum([used, ...ending.map(({ usage }) => usage)]), needs }) !== undefined)
    return { requeueAfterMs: Math.max(1, Math.min(...ending.map(({ until }) => until - now))) };
  const { startsPerMinute } = quota.limits;
  const starts = recentStarts(tenantId, { others, now }, room);
  if (startsPerMinute !== undefined && starts.length >= startsPerMinute) {
    const first = starts[starts.length - startsPerMinute];
    const wait = first === undefined ? "" : `: try again in ${Math.ceil((first + MINUTE_MS - now) / 1000)} s`;
    const message = `tenant "${tenantId}" has got ${starts.length} of ${startsPerMinute} instances in the last minute (${placeOf(quota, "startsPerMinute")})${wait}`;
    return { next: "fail", reason: "TenantStartsExceeded", message };
  }
  room.given.set(uid, needs);
  if (startsPerMinute !== undefined) noteStart(tenantId, [...starts, now], room);
  return undefined;
}

/**
 * Notes that a claim gives up its pod, whose containers may go on for its grace period: a destroyed pod is gone from
 * the API server at once. The claim takes room for its next pod as a new one does.
 */
export function leaveRoom(claim: Claim, { room, serverNow }: Pick<ClaimContext, "room" | "serverNow">): void {
  const { uid = "" } = claim.metadata;
  const usage = usageShown(claim) ?? room.given.get(uid);
  room.given.delete(uid);
  if (usage === undefined) return;
  const { tenantId } = claim.spec;
  room.ending.add({ tenantId, usage, until: serverNow() + END_GRACE_SECONDS * 1000 });
}

function endingOf(tenantId: string, { now, room }: { now: number; room: TenantRoom }) {
  for (const one of room.ending) {
    if (one.until > now) break;
    room.ending.delete(one);
  }
  return [...room.ending].filter((one) => one.tenantId === tenantId);
}

/** Whether the claim was Active, and no caller has asked for a new session since. */
export function goesOn({ metadata, status }: Claim): boolean {
  return status?.claimedAt !== undefined && status.attempt === metadata.annotations?.[annotation.attempt];
}

/** What a claim of the tenant takes; undefined if it takes nothing. */
function usedBy(claim: Claim, { room, informers, config }: ClaimContext): Usage | undefined {
  const { uid = "" } = claim.metadata;
  const given = room.given.get(uid);
  // Bound by the leader before this one, or not gone yet after a failure.
  const hasPod = () => informers.pods.store.by("claimUid", uid).size > 0;
  if (given === undefined && !holdsInstance(claim) && !hasPod()) return undefined;
  const { namespace } = config;
  const workload = () => informers.workloads.store.get({ namespace, name: claim.spec.workloadRef });
  return usageShown(claim) ?? given ?? usageOf(workload());
}

/** The starts of the last minute, oldest first. Those before this leader are known from claims that still exist. */
function recentStarts(
  tenantId: string,
  { others, now }: { others: readonly Claim[]; now: number },
  { starts, given }: TenantRoom,
): number[] {
  const isRecent = (at: number): boolean => now - at < MINUTE_MS;
  const own = (starts.get(tenantId) ?? []).filter(isRecent);
  if (starts.has(tenantId)) return own;
  const shown = others.flatMap(({ metadata, status }) =>
    given.has(metadata.uid ?? "") ? [] : Date.parse(status?.claimedAt ?? ""),
  );
  return shown.filter(isRecent).sort((a, b) => a - b);
}

function noteStart(tenantId: string, times: number[], { starts }: TenantRoom): void {
  starts.delete(tenantId);
  starts.set(tenantId, times);
  const now = times.at(-1) ?? 0;
  for (const [other, [...others]] of starts) {
    if (now - (others.at(-1) ?? 0) < MINUTE_MS) break;
    starts.delete(other);
  }
}
