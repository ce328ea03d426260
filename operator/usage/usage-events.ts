import { systemClock } from "../../crds/client/clock.ts";
import type { EventSink } from "../../crds/sink/event-sink.ts";
import type { StoreCall } from "../../crds/snapshots/snapshot-store.ts";
import { isMergedName } from "../../crds/usage/merged-batches.ts";
import { HOUR_MS, hourAt, hourStart, hoursBetween, type UsageHour } from "../../crds/usage/usage-hour.ts";
import type { AnyUsageRecord } from "../../crds/usage/usage-record.ts";
import { parseRecord, type UsageStore } from "../../crds/usage/usage-store.ts";
import { sleep } from "../../crds/waits.ts";

const CALL_MS = 600_000;
/** How far apart the store is told what the sink has. */
const TOLD_MS = 300_000;
const FULL_MS = 10_000;
const ROOM_MS = 100;
const LATE_MS = 2 * HOUR_MS;

/** Sends usage records to the sink. */
export interface UsageEvents {
  /** The store, whose batches are sent once they are on the disk. Merged ones have been sent before. */
  readonly store: UsageStore;
  /**
   * Sends again what the sink may lack: what an operator wrote whose backlog was lost with its pod, and what did not fit
   * into this one's. Then notes in the store what the sink has.
   *
   * @returns milliseconds until the next call
   */
  follow(signal: AbortSignal): Promise<number>;
}

/**
 * Each record of the store is sent at least once. The event has the record's id.
 *
 * @param options.mayHaveStore whether there is a store; without one there are no records
 */
export function createUsageEvents(options: {
  sink: EventSink;
  store: UsageStore;
  mayHaveStore: () => Promise<boolean>;
  now: () => number;
}): UsageEvents {
  const { sink, store, mayHaveStore, now } = options;
  /** Up to when the sink has all records, as the store says. */
  let told: UsageHour | undefined;
  let starting: Promise<UsageHour> | undefined;
  /** From which hour on records are sent again. */
  let again: UsageHour | undefined;
  let lost = sink.lost();

  async function send(records: readonly AnyUsageRecord[]): Promise<void> {
    await Promise.all(
      records.map(({ id, ...record }) =>
        sink.add({ type: "usage", id, subject: record.tenantId, time: record.to, data: { id, ...record } }),
      ),
    );
  }

  /** @returns whether all of them were added */
  async function sendFrom(first: UsageHour, call: StoreCall): Promise<boolean> {
    for (const hour of hoursBetween(first, hourAt(now() + 2 * HOUR_MS))) {
      again = hour;
      if (sink.isFull()) return false;
      for await (const lines of store.read({ from: hour, to: hourAt(hourStart(hour) + HOUR_MS) }, call)) {
        await send(recordsIn(lines));
        while (sink.isFull()) await sleep(ROOM_MS, { clock: systemClock, signal: call.signal });
      }
    }
    again = undefined;
    return true;
  }

  function start(call: StoreCall): Promise<UsageHour> {
    starting ??= readMark(call).catch((error: unknown) => {
      starting = undefined;
      throw error;
    });
    return starting;
  }

  async function readMark(call: StoreCall): Promise<UsageHour> {
    const stored = await store.mark("sent", call);
    // A new sink gets the present hour, and what comes.
    again = stored ?? hourAt(now());
    if (stored === undefined) await store.setMark("sent", again, call);
    return again;
  }

  async function tell(until: UsageHour, call: StoreCall): Promise<void> {
    if (until !== told) await store.setMark("sent", until, call);
    told = until;
  }

  return {
    store: {
      ...store,
      async append(batch, call) {
        const isNew = !isMergedName(batch.name);
        told ??= await start(call);
        // A record that comes late: the next leader must look for it there.
        if (isNew && batch.hour < told) await tell(batch.hour, call);
        await store.append(batch, call);
        if (isNew) void send(recordsIn(batch.lines.split("\n")));
      },
    },

    async follow(signal) {
      if (!(await mayHaveStore())) return TOLD_MS;
      const call = { signal, timeoutMs: CALL_MS };
      told ??= await start(call);
      if (sink.lost() > lost) {
        lost = sink.lost();
        sink.forget(["usage"]);
        again = told;
      }
      if (again !== undefined && !(await sendFrom(again, call))) return FULL_MS;
      // What is late is looked for from there. A clock that was ahead has written a time to come.
      const late = hourAt(now() - LATE_MS);
      const reached = told > late && told <= hourAt(now()) ? told : late;
      const pending = sink.pending(["usage"]);
      await tell(pending !== undefined && pending < reached ? pending : reached, call);
      return TOLD_MS;
    },
  };
}

function recordsIn(lines: readonly string[]): AnyUsageRecord[] {
  return lines.flatMap((line) => parseRecord(line) ?? []);
}
