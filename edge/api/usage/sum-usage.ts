import { setImmediate } from "node:timers/promises";
import { type AnyUsageRecord, countedRecord, partsOfId, type UsageRecord } from "../../../crds/usage/usage-record.ts";
import { parseRecord } from "../../../crds/usage/usage-store.ts";
import { reachesWorkload } from "../../access/actor.ts";
import { HttpError } from "../../http/http-error.ts";

/** A record takes 20 µs, a line of another tenant a hundredth of that: 5 ms, then other requests have their turn. */
const RECORDS_A_TURN = 256;
const RECORD_AS_LINES = 100;
const ADDED_AS_LINES = 10;
const LINES_A_TURN = RECORD_AS_LINES * RECORDS_A_TURN;

/** What the sums are by. */
export const usageGroups = ["tenant", "workload", "day"] as const;

export type UsageGroup = (typeof usageGroups)[number];

/** What sums can be sorted by, the greatest first. */
export const usageOrders = ["sessions", "seconds", "vcpuSeconds", "mibSeconds", "snapshotByteHours"] as const;

/** All sums are in memory while they are sorted: some 300 bytes each. */
const MOST_SORTED = 100_000;

/** What the sessions and archives of a tenant or a workload, or of a day of UTC, used. */
export interface UsageSum {
  /** The tenant id, the name of the workload, or a day such as `2026-11-29`. */
  readonly key: string;
  /** Sessions that ended. */
  sessions: number;
  /** Of all instances together. */
  seconds: number;
  vcpuSeconds: number;
  mibSeconds: number;
  /** Of archives, with all versions. */
  snapshotByteHours: number;
  /** The sessions by how their instance was found. */
  readonly sources: Partial<Record<UsageRecord["source"], number>>;
}

export interface SumOptions {
  readonly by: UsageGroup;
  /** Only records of tenants for which it is true. @default all */
  readonly isMeant?: ((tenantId: string) => boolean) | undefined;
  /** Only records of these workloads, or starts of their names before a `*`. @default all */
  readonly workloads?: readonly string[] | undefined;
  /** @default by key */
  readonly order?: (typeof usageOrders)[number] | undefined;
  /** Only sums that come after the one with this key. @default all */
  readonly after?: string | undefined;
  /** The most sums. */
  readonly limit: number;
}

/**
 * Adds records up, each id once, some milliseconds at a time: others use the thread too.
 *
 * Memory holds twice `limit` sums, and the records of one hour, some 700 bytes each: ids have their hour, and a store
 * returns the records of an hour together. With `order` it holds all sums.
 *
 * @param read lines of records, in the order of hours
 * @returns a page of sums, and the key of its last one if there are more
 * @throws HttpError 400 if there are too many sums to sort them
 */
export async function sumUsage(
  read: AsyncIterable<readonly string[]>,
  { by, isMeant = () => true, workloads, order, after = "", limit }: SumOptions,
): Promise<{ sums: UsageSum[]; next: string | undefined }> {
  const sums = new Map<string, UsageSum>();
  /** Greater keys are on later pages; undefined while all fit. */
  let greatest: string | undefined;
  let hour = "";
  const records = new Map<string, AnyUsageRecord>();
  let left = LINES_A_TURN;

  async function endTurn(): Promise<void> {
    await setImmediate();
    left = LINES_A_TURN;
  }

  function add(record: AnyUsageRecord): void {
    const key = keyOf(record, by);
    if (greatest !== undefined && key > greatest) return;
    const sum = sums.get(key) ?? noSum(key);
    sums.set(key, sum);
    if (record.kind === "snapshot") sum.snapshotByteHours += record.byteHours;
    else addSession(sum, record);
    if (order === undefined && sums.size >= 2 * limit) cut();
    if (sums.size > MOST_SORTED) {
      const words = "cannot be sorted: ask for fewer days, or for the start of an id";
      throw new HttpError(400, `query.order: over ${MOST_SORTED} sums ${words}`);
    }
  }

  function addSession(sum: UsageSum, record: UsageRecord): void {
    sum.seconds += (Date.parse(record.to) - Date.parse(record.from)) / 1000;
    sum.vcpuSeconds += record.vcpuSeconds;
    sum.mibSeconds += record.mibSeconds;
    if (record.end !== undefined) {
      sum.sessions += 1;
      sum.sources[record.source] = (sum.sources[record.source] ?? 0) + 1;
    }
  }

  function cut(): void {
    if (sums.size <= limit) return;
    const keys = [...sums.keys()].sort();
    for (const key of keys.splice(limit)) sums.delete(key);
    greatest = keys.at(-1);
  }

  async function endHour(): Promise<void> {
    for (const record of records.values()) {
      add(record);
      left -= ADDED_AS_LINES;
      if (left <= 0) await endTurn();
    }
    records.clear();
  }

  for await (const lines of read) {
    for (const line of lines) {
      // Lines of other tenants are not parsed.
      const isOther = !isMeant(tenantIn(line));
      left -= isOther ? 1 : RECORD_AS_LINES;
      if (left <= 0) await endTurn();
      if (isOther) continue;
      const record = parseRecord(line);
      if (record === undefined || !isMeant(record.tenantId)) continue;
      if (!reachesWorkload({ workloads }, record.workload)) continue;
      if (order === undefined && keyOf(record, by) <= after) continue;
      const own = partsOfId(record).hour;
      if (own !== hour) {
        await endHour();
        hour = own;
      }
      const known = records.get(record.id);
      records.set(record.id, known === undefined ? record : countedRecord(known, record));
    }
  }
  await endHour();
  if (order !== undefined) return sortedPage();
  cut();
  const sorted = [...sums.values()].sort((a, b) => (a.key < b.key ? -1 : 1)).map(rounded);
  return { sums: sorted, next: greatest };

  function sortedPage(): { sums: UsageSum[]; next: string | undefined } {
    const of = (sum: UsageSum): number => sum[order ?? "seconds"];
    const all = [...sums.values()].sort((a, b) => of(b) - of(a) || (a.key < b.key ? -1 : 1));
    const start = after === "" ? 0 : all.findIndex(({ key }) => key === after) + 1;
    const page = start === 0 && after !== "" ? [] : all.slice(start, start + limit);
    return { sums: page.map(rounded), next: start + limit < all.length ? page.at(-1)?.key : undefined };
  }
}

const TENANT = '"tenantId":"';

/** The tenant that a line names. A record has this field before its labels, whose names are free. */
function tenantIn(line: string): string {
  const start = line.indexOf(TENANT) + TENANT.length;
  return line.slice(start, line.indexOf('"', start));
}

function noSum(key: string): UsageSum {
  const none = { sessions: 0, seconds: 0, vcpuSeconds: 0, mibSeconds: 0, snapshotByteHours: 0 };
  return { key, ...none, sources: {} };
}

function keyOf(record: AnyUsageRecord, by: UsageGroup): string {
  switch (by) {
    case "tenant":
      return record.tenantId;
    case "workload":
      return record.workload;
    case "day":
      return record.from.slice(0, 10);
    default:
      return by satisfies never;
  }
}

/** Sums of thousandths, which a binary fraction does not have. */
function rounded({ seconds, vcpuSeconds, mibSeconds, ...sum }: UsageSum): UsageSum {
  const exact = (value: number): number => Math.round(value * 1000) / 1000;
  return { ...sum, seconds: exact(seconds), vcpuSeconds: exact(vcpuSeconds), mibSeconds: exact(mibSeconds) };
}
