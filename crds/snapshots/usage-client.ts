import * as v from "valibot";
import { HOUR_MS, hourAt, hourStart } from "../usage/usage-hour.ts";
import { linesOf, type UsageStore } from "../usage/usage-store.ts";
import { StoreConflict, StoreError } from "./snapshot-store.ts";
import { NO_SUCH_CALL } from "./store-client.ts";
import type { StoreConnection } from "./store-connection.ts";
import { batchesSchema, MARKED, recordedUntilSchema, recordsHeadSchema } from "./store-protocol.ts";

const DAY_HOURS = 24;
const GONE = "Cannot write usage records: the mark that was on the volume is gone, so the volume was replaced";

/**
 * The usage records of a snapshots server.
 *
 * @param options.wasMarked whether the volume ever had its mark
 */
export function createUsageClient(options: {
  connection: StoreConnection;
  wasMarked: (signal: AbortSignal) => Promise<boolean>;
}): UsageStore {
  const { ask, openBytes, repeat, limited } = options.connection;

  /** Writes, but never to a volume in the place of the one with the archives. */
  async function write(put: { path: string; body?: Buffer }, signal: AbortSignal): Promise<void> {
    const tryTo = (headers: Record<string, string>) =>
      ifKnown(repeat(signal, () => ask(v.object({}), { ...put, method: "PUT", headers, signal })));
    try {
      await tryTo({});
    } catch (error) {
      if (!(error instanceof StoreConflict)) throw error;
      // A new volume gets its mark with its first archive.
      if (await options.wasMarked(signal)) throw new StoreError(GONE, { isTransient: false, cause: error });
      await tryTo({ [MARKED]: "false" });
    }
  }

  return {
    append: ({ hour, name, lines }, call) =>
      limited(call, (signal) => write({ path: `/v1/usage-records/${hour}/${name}`, body: Buffer.from(lines) }, signal)),

    async *read({ from, to }, call) {
      for (let hour = from; hour < to; ) {
        const dayEnd = hourAt(hourStart(hour) + DAY_HOURS * HOUR_MS);
        const next = dayEnd < to ? dayEnd : to;
        const readHead = (line: string) => ({ expected: { ...readSize(line), sha256: undefined } });
        const opened = await ifKnown(openBytes(`/v1/usage-records/${hour}/${next}`, { ...call, readHead }));
        try {
          if (opened !== undefined) yield* linesOf(opened.content);
        } finally {
          opened?.close();
        }
        hour = next;
      }
    },

    batches: (hour, call) =>
      limited(call, async (signal) => {
        const path = `/v1/usage-batches/${hour}`;
        return (await ifKnown(repeat(signal, () => ask(batchesSchema, { method: "GET", path, signal })))).names;
      }),

    drop: ({ hour, names }, call) =>
      limited(call, async (signal) => {
        const path = `/v1/usage-batches/${hour}/drop`;
        const body = Buffer.from(JSON.stringify({ names }));
        await ifKnown(repeat(signal, () => ask(v.object({}), { method: "POST", path, body, signal })));
      }),

    recordedUntil: (call) =>
      limited(call, async (signal) => {
        const path = "/v1/usage-until";
        return (await ifKnown(repeat(signal, () => ask(recordedUntilSchema, { method: "GET", path, signal })))).until;
      }),

    setRecordedUntil: (hour, call) => limited(call, (signal) => write({ path: `/v1/usage-until/${hour}` }, signal)),
  };
}

function readSize(line: string): { sizeBytes: number } {
  return v.parse(recordsHeadSchema, JSON.parse(line));
}

/** @throws StoreError if the server is of an earlier version, without this call */
async function ifKnown<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (!(error instanceof StoreError && error.message.endsWith(NO_SUCH_CALL))) throw error;
    const why = "the snapshots server is of an earlier version, without usage records: it is replaced soon";
    throw new StoreError(why, { isTransient: true, cause: error });
  }
}
