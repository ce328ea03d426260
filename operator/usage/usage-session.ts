import type { Claim, ClaimStatus } from "../../crds/claim.ts";
import { programContainer } from "../../crds/claims/claim-pod.ts";
import { bytesOf, isQuantity } from "../../crds/environment.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { HOUR_MS, hourAt, hourStart } from "../../crds/usage/usage-hour.ts";
import type { UsageEnd, UsageSession } from "../../crds/usage/usage-record.ts";

/** Times of objects have whole seconds. */
const RESOLUTION_MS = 1000;

/** What a claim's status says of the use of its pod, from the limits of the workload's container. */
export function usageOf(pod: Pod, since: Date): NonNullable<ClaimStatus["usage"]> {
  const { cpu = "0", memory = "0" } = programContainer(pod.spec)?.resources?.limits ?? {};
  const cpuMillis = cpu.endsWith("m") ? Number.parseInt(cpu, 10) : Math.round(Number(cpu) * 1000);
  return {
    since: since.toISOString(),
    cpuMillis: Number.isFinite(cpuMillis) ? cpuMillis : 0,
    memoryMib: isQuantity(memory) ? Math.round(bytesOf(memory) / 1024 ** 2) : 0,
  };
}

/** The use of a pod that a claim's status shows; undefined if there is none, or its end is recorded. */
export function usageSessionOf({ metadata, spec, status }: Claim): UsageSession | undefined {
  const { usage, instanceUid, source } = status ?? {};
  if (usage === undefined || instanceUid === undefined || source === undefined) return undefined;
  const { tenantId, workloadRef: workload, labels = {} } = spec;
  const { cpuMillis, memoryMib } = usage;
  const id = `${metadata.uid}.${instanceUid}`;
  return { id, tenantId, workload, labels, source, since: Date.parse(usage.since), cpuMillis, memoryMib };
}

/**
 * When and how the use of a deleted claim's pod ended: at the deletion, to the millisecond if this process saw it at
 * once. It is in the hour of the deletion for each process that computes it, since the hour is a part of the record's
 * id.
 *
 * @param times.now milliseconds since the epoch
 * @param times.serverNow the same by the API server's clock
 */
export function releasedAt(
  { metadata, spec }: Claim,
  { now, serverNow }: { now: number; serverNow: number },
): { to: number; end: UsageEnd } {
  const deletedAt = Date.parse(metadata.deletionTimestamp ?? "");
  // Its finalizer was removed by hand.
  if (Number.isNaN(deletedAt)) return { to: now, end: "released" };
  const lateMs = Math.max(0, serverNow - deletedAt - RESOLUTION_MS);
  const isExpired = Date.parse(spec.expiresAt ?? "") <= deletedAt + RESOLUTION_MS;
  const hour = hourStart(hourAt(deletedAt));
  const to = Math.min(Math.max(now - lateMs, hour + 1), hour + HOUR_MS);
  return { to, end: isExpired ? "expired" : "released" };
}
