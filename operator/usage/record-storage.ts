import { createHash, randomBytes } from "node:crypto";
import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import { storedBytes } from "../../crds/snapshots/quota.ts";
import type { SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotStore, StoreCall, StoreEntry } from "../../crds/snapshots/snapshot-store.ts";
import { compareKeys } from "../../crds/snapshots/store-pages.ts";
import { HOUR_MS, hourAt, hourStart, type UsageHour } from "../../crds/usage/usage-hour.ts";
import type { SnapshotRecord } from "../../crds/usage/usage-record.ts";
import type { UsageMark, UsageStore } from "../../crds/usage/usage-store.ts";
import { sleep } from "../../crds/waits.ts";
import { NotLeadingError } from "../leader.ts";

const PAGE_KEYS = 200;
const CALL_LIMIT_MS = 60_000;
/** Records of one hour. */
const MOST_RECORDS = 10_000;
/** How many hours a record may cover: records begin at multiples of that in each day. */
const HOURS = [1, 2, 3, 4, 6, 8, 12, 24];
const DAY_HOURS = 24;
/** After a page, the store is left alone for this many times as long as the page took. */
const REST_TIMES = 3;
/** Of one batch; there is one for each hour. */
const BATCH_CHARACTERS = 512 * 1024;

export interface StorageRecorderOptions {
  readonly usage: UsageStore;
  readonly archives: Pick<SnapshotStore, "list" | "names">;
  /** Whether there is a store. Without one, nothing is recorded. */
  readonly mayHaveStore: () => Promise<boolean>;
  readonly isLeading: () => boolean;
  /** @default 10 000 */
  readonly mostRecords?: number;
  /** @default 200 */
  readonly pageKeys?: number;
  readonly steady?: Clock;
}

/** The hours of one record. */
interface Slot {
  readonly from: UsageHour;
  readonly to: UsageHour;
}

/**
 * Records the space that archives take, of each tenant and workload
 * (docs/decisions/usage.md#archives-are-counted-once-an-hour-or-less-often).
 */
export interface StorageRecorder {
  /**
   * Records the next hours that are over, if there are any.
   *
   * @param hour the present hour
   * @returns the hour at which the next ones are over
   */
  record(hour: UsageHour, signal: AbortSignal): Promise<UsageHour>;
}

export function createStorageRecorder(options: StorageRecorderOptions): StorageRecorder {
  const {
    usage,
    archives,
    isLeading,
    mostRecords = MOST_RECORDS,
    pageKeys = PAGE_KEYS,
    steady = steadyClock,
  } = options;
  const term = randomBytes(8).toString("hex");
  let batches = 0;
  /** As many as the last list had. */
  let keys: number | undefined;

  /** A paused leader may go on beside its successor, whose marks are later. */
  async function setMark(name: UsageMark, hour: UsageHour, signal: AbortSignal): Promise<void> {
    if (!isLeading()) throw new NotLeadingError("Cannot record the space of archives: another operator leads");
    const known = await usage.mark(name, callOf(signal));
    if (known === undefined || known < hour) await usage.setMark(name, hour, callOf(signal));
  }

  /** The items of a list. It takes at most a quarter of the store's time. */
  async function* paced<T>(
    read: (page: { after: SnapshotKey | undefined; limit: number }) => Promise<{
      items: readonly T[];
      next: SnapshotKey | undefined;
    }>,
    signal: AbortSignal,
  ): AsyncGenerator<readonly T[]> {
    let after: SnapshotKey | undefined;
    do {
      const began = steady.now();
      const { items, next } = await read({ after, limit: pageKeys });
      const restMs = REST_TIMES * (steady.now() - began);
      yield items;
      after = next;
      if (after !== undefined) await sleep(restMs, { clock: steady, signal });
    } while (after !== undefined);
  }

  async function count(signal: AbortSignal): Promise<number> {
    let found = 0;
    for await (const items of paced((page) => archives.names(page, callOf(signal)), signal)) found += items.length;
    return found;
  }

  /** The hours that are recorded next, once they are over. They are decided once, so that a record has one id. */
  async function nextSlot(until: UsageHour, { hour, signal }: { hour: UsageHour; signal: AbortSignal }): Promise<Slot> {
    const decided = await usage.mark("snapshots-next", callOf(signal));
    if (decided !== undefined && decided > until && decided <= later(until, DAY_HOURS))
      return { from: until, to: decided };
    // What was stored longer ago is not known.
    const from = [until, later(hour, -DAY_HOURS)].reduce((a, b) => (a > b ? a : b));
    keys ??= await count(signal);
    const wanted = Math.ceil(keys / mostRecords);
    const hours = HOURS.find((one) => one >= wanted) ?? DAY_HOURS;
    const ofDay = new Date(hourStart(from)).getUTCHours();
    return { from, to: later(from, hours - (ofDay % hours)) };
  }

  async function write(slot: Slot, signal: AbortSignal): Promise<void> {
    const lines = new Map<UsageHour, string>();
    async function flush(hour: UsageHour): Promise<void> {
      if (!isLeading()) throw new NotLeadingError("Cannot record the space of archives: another operator leads");
      batches += 1;
      await usage.append({ hour, name: [term, batches].join("-"), lines: lines.get(hour) ?? "" }, callOf(signal));
      lines.delete(hour);
    }
    let found = 0;
    for await (const entries of paced((page) => archives.list({ ...page, versions: true }, callOf(signal)), signal)) {
      for (const own of byKey(entries)) {
        found += 1;
        const record = recordOf(own, slot);
        if (record === undefined) continue;
        const { hour, line } = record;
        lines.set(hour, (lines.get(hour) ?? "") + line);
        if ((lines.get(hour) ?? "").length > BATCH_CHARACTERS) await flush(hour);
      }
    }
    for (const hour of [...lines.keys()]) await flush(hour);
    keys = found;
  }

  return {
    async record(hour, signal) {
      if (!(await options.mayHaveStore())) return later(hour, 1);
      const until = await usage.mark("snapshots", callOf(signal));
      if (until === undefined) {
        await setMark("snapshots", hour, signal);
        return later(hour, 1);
      }
      const slot = await nextSlot(until, { hour, signal });
      if (slot.to > hour) return slot.to;
      await setMark("snapshots", slot.from, signal);
      await setMark("snapshots-next", slot.to, signal);
      await write(slot, signal);
      await setMark("snapshots", slot.to, signal);
      return later(slot.to, 1);
    },
  };
}

/** Lists have the archives of a key together. */
function* byKey(entries: readonly StoreEntry[]): Generator<readonly [StoreEntry, ...StoreEntry[]]> {
  let own: [StoreEntry, ...StoreEntry[]] | undefined;
  for (const entry of entries) {
    if (own !== undefined && compareKeys(own[0], entry) === 0) own.push(entry);
    else {
      if (own !== undefined) yield own;
      own = [entry];
    }
  }
  if (own !== undefined) yield own;
}

/** The record of a key's archives, and the hour of the slot by which it is stored: keys are spread over these hours. */
function recordOf(
  own: readonly [StoreEntry, ...StoreEntry[]],
  { from, to }: Slot,
): { hour: UsageHour; line: string } | undefined {
  const bytes = storedBytes(own.map(({ sizeBytes, metadata }) => ({ sizeBytes, sha256: metadata?.sha256 })));
  if (bytes === 0) return undefined;
  const { tenantId, workloadRef: workload } = own[0];
  const hours = (hourStart(to) - hourStart(from)) / HOUR_MS;
  const place = createHash("sha256").update(`${tenantId}/${workload}`).digest().readUInt32BE(0);
  const hour = later(from, place % hours);
  const record: SnapshotRecord = {
    ...{ id: `snapshot:${tenantId}:${workload}/${hour}`, kind: "snapshot", tenantId, workload },
    ...{ from: new Date(hourStart(from)).toISOString(), to: new Date(hourStart(to)).toISOString() },
    byteHours: bytes * hours,
  };
  return { hour, line: `${JSON.stringify(record)}\n` };
}

function later(hour: UsageHour, hours: number): UsageHour {
  return hourAt(hourStart(hour) + hours * HOUR_MS);
}

function callOf(signal: AbortSignal): StoreCall {
  return { signal, timeoutMs: CALL_LIMIT_MS };
}
