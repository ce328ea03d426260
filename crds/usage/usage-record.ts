import * as v from "valibot";
import type { ClaimSource } from "../claim.ts";
import { HOUR_MS, hourAt, hourStart, hoursBetween, type UsageHour } from "./usage-hour.ts";

/**
 * How the use of a pod ended. `released`: the claim was deleted; `idle`: the operator deleted it for idleness (earlier
 * versions wrote `released`); `expired`: it was deleted after its `expiresAt`; `destroyed`: the pod was destroyed on
 * request; `moved`: the session goes on in another pod, with its files; `lost`: the pod was lost, and the session goes
 * on in another one; `failed`: the claim went to `Error`.
 */
export const usageEnds = ["released", "idle", "expired", "destroyed", "moved", "lost", "failed"] as const;

export type UsageEnd = (typeof usageEnds)[number];

const count = v.pipe(v.number(), v.finite(), v.minValue(0));
const time = v.pipe(
  v.string(),
  v.check((text) => !Number.isNaN(Date.parse(text)), "is not a time"),
);

/**
 * What a session used in one hour of UTC. A session is one pod that a claim was given, from the moment at which the
 * claim became `Active` to the end of that use. If the claim goes on with the pod after that, another session begins.
 */
export const usageRecordSchema = v.object({
  /** `<id of the session>/<hour>`. A record that is written twice has the same id. */
  id: v.pipe(v.string(), v.regex(/^[^/\s]+[/][-0-9T]+$/)),
  kind: v.literal("session"),
  tenantId: v.string(),
  workload: v.string(),
  /** The claim's `spec.labels`. */
  labels: v.record(v.string(), v.string()),
  source: v.picklist(["existing", "pool", "pool+data", "cold", "cold+data"] satisfies ClaimSource[]),
  /** ISO 8601 times within the hour. */
  from: time,
  to: time,
  /** CPUs of the workload's container (its limit, without sidecars) times seconds. */
  vcpuSeconds: count,
  /** MiB of the limit of its memory, times seconds. */
  mibSeconds: count,
  /** How the use ended, as {@link UsageEnd} or a later version says; only in the last record of a session. */
  end: v.optional(v.pipe(v.string(), v.regex(/^[a-z-]{1,40}$/))),
});

export type UsageRecord = v.InferOutput<typeof usageRecordSchema>;

/**
 * The space that a tenant's archives of a workload took, with all versions, for some hours of one day of UTC: as much as
 * the leader found after these hours.
 */
export const snapshotRecordSchema = v.object({
  /** `snapshot:<tenant>:<workload>/<one of the hours>`. Found twice, it has the same id. */
  id: v.pipe(v.string(), v.regex(/^snapshot:[^/\s]+[/][-0-9T]+$/)),
  kind: v.literal("snapshot"),
  tenantId: v.string(),
  workload: v.string(),
  /** ISO 8601 times: whole hours. */
  from: v.string(),
  to: v.string(),
  /** Bytes times hours. */
  byteHours: count,
});

export type SnapshotRecord = v.InferOutput<typeof snapshotRecordSchema>;

export type AnyUsageRecord = UsageRecord | SnapshotRecord;

/** The use of a pod by a claim, as its records are made from it. */
export interface UsageSession extends Pick<UsageRecord, "tenantId" | "workload" | "labels" | "source"> {
  /**
   * `<uid of the claim>.<uid of the pod>`; `.<milliseconds since the epoch>` follows if it began later than the claim
   * became `Active`.
   */
  readonly id: string;
  /** In milliseconds since the epoch. */
  readonly since: number;
  readonly vcpus: number;
  readonly memoryMb: number;
}

/**
 * The records of a session, one for each hour.
 *
 * @param options.first the first hour; earlier ones are recorded already
 * @param options.to the end of the use, or of the last whole hour, in milliseconds since the epoch
 * @param options.end how the use ended. @default it goes on
 */
export function* recordsOf(
  session: UsageSession,
  { first, to, end }: { first: UsageHour; to: number; end?: UsageEnd | undefined },
): Generator<UsageRecord> {
  const { id, tenantId, workload, labels, source, since, vcpus, memoryMb } = session;
  const until = Math.max(to, since);
  const last = hourAt(Math.max(since, until - 1));
  const begin = [first, hourAt(since)].reduce((a, b) => (a > b ? a : b));
  for (const hour of hoursBetween(begin > last ? last : begin, hourAt(hourStart(last) + HOUR_MS))) {
    const from = Math.max(since, hourStart(hour));
    const ms = Math.max(0, Math.min(until, hourStart(hour) + HOUR_MS) - from);
    yield {
      ...{ id: `${id}/${hour}`, kind: "session", tenantId, workload, labels, source },
      ...{ from: new Date(from).toISOString(), to: new Date(from + ms).toISOString() },
      ...{ vcpuSeconds: (vcpus * ms) / 1000, mibSeconds: (memoryMb * ms) / 1000 },
      ...(hour === last && end !== undefined && { end }),
    };
  }
}

/** The session, or the rest of the id, and the hour of a record. */
export function partsOfId({ id }: Pick<AnyUsageRecord, "id">): { readonly session: string; readonly hour: UsageHour } {
  const [session = "", hour = ""] = id.split("/");
  return { session, hour };
}

/**
 * Which of two records with the same id counts: one that has an end, else the one with less use. So neither a killed
 * operator nor one that wrote too late makes a bill longer.
 */
export function countedRecord(a: AnyUsageRecord, b: AnyUsageRecord): AnyUsageRecord {
  if (a.kind === "snapshot" || b.kind === "snapshot") {
    return a.kind === "snapshot" && b.kind === "snapshot" && a.byteHours > b.byteHours ? b : a;
  }
  if ((a.end === undefined) !== (b.end === undefined)) return a.end === undefined ? b : a;
  return a.to <= b.to ? a : b;
}
