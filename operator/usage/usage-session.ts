import type { Claim } from "../../crds/claim.ts";
import { HOUR_MS, hourAt, hourStart } from "../../crds/usage/usage-hour.ts";
import type { UsageEnd, UsageSession } from "../../crds/usage/usage-record.ts";

/** The ends that the deletion of a claim has: its pod is not used after them. */
const RELEASED: ReadonlySet<string> = new Set<UsageEnd>(["released", "idle", "expired"]);

export function isRelease(end: string): boolean {
  return RELEASED.has(end);
}

/** Times of objects have whole seconds. */
const RESOLUTION_MS = 1000;

/**
 * The use of a pod that a claim's status shows; undefined if there is none. A use that begins later than the claim
 * became `Active` has its start in its id: the one before it may have been recorded as ended.
 */
export function usageSessionOf({ metadata, spec, status }: Claim): UsageSession | undefined {
  const { usageSince, claimedAt, instanceUid, source, resources = { vcpus: 0, memoryMb: 0 } } = status ?? {};
  if (usageSince === undefined || instanceUid === undefined || source === undefined) return undefined;
  const { tenantId, workloadRef: workload, labels = {} } = spec;
  const since = Date.parse(usageSince);
  const id = `${metadata.uid}.${instanceUid}${since > Date.parse(claimedAt ?? "") ? `.${since}` : ""}`;
  return { id, tenantId, workload, labels, source, since, ...resources };
}

/**
 * When and how the use of a deleted claim's pod ended: at the deletion, to the millisecond if this process saw it at
 * once. It is in the hour of the deletion for each process that computes it, since the hour is a part of the record's
 * id.
 *
 * @param options.now milliseconds since the epoch
 * @param options.serverNow the same by the API server's clock
 * @param options.isIdle whether the operator deleted the claim for idleness
 */
export function releasedAt(
  { metadata, spec }: Claim,
  { now, serverNow, isIdle = false }: { now: number; serverNow: number; isIdle?: boolean | undefined },
): { to: number; end: UsageEnd } {
  const deletedAt = Date.parse(metadata.deletionTimestamp ?? "");
  // Its finalizer was removed by hand.
  if (Number.isNaN(deletedAt)) return { to: now, end: "released" };
  const lateMs = Math.max(0, serverNow - deletedAt - RESOLUTION_MS);
  const isExpired = Date.parse(spec.expiresAt ?? "") <= deletedAt + RESOLUTION_MS;
  const hour = hourStart(hourAt(deletedAt));
  const to = Math.min(Math.max(now - lateMs, hour + 1), hour + HOUR_MS);
  if (isExpired) return { to, end: "expired" };
  return { to, end: isIdle ? "idle" : "released" };
}
