import * as v from "valibot";
import { HOUR_MS, hourAt, hourStart } from "../usage/usage-hour.ts";
import { linesOf, type UsageStore } from "../usage/usage-store.ts";
import { type StoreCall, StoreConflict, StoreError } from "./snapshot-store.ts";
import { NO_SUCH_CALL } from "./store-client.ts";
import type { Asked, StoreConnection } from "./store-connection.ts";
import { batchesSchema, hoursSchema, MARKED, recordedUntilSchema, recordsHeadSchema } from "./store-protocol.ts";

const DAY_HOURS = 24;

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

  /** Makes a call, but never to another volume in the place of the one with the archives. */
  async function tryTo<T>(call: (headers: Asked["headers"]) => Promise<T>, signal: AbortSignal): Promise<T> {
    try {
      return await call({});
    } catch (error) {
      if (error instanceof StoreError && error.message.endsWith(NO_SUCH_CALL)) {
        const why = "the snapshots server is of an earlier version, without usage records: it is replaced soon";
        throw new StoreError(why, { isTransient: true, cause: error });
      }
      if (!(error instanceof StoreConflict)) throw error;
      // A new volume gets its mark with its first archive.
      if (!(await options.wasMarked(signal))) return await call({ [MARKED]: "false" });
      const why = "Cannot use usage records: the mark that was on the volume is gone, so the volume was replaced";
      throw new StoreError(why, { isTransient: false, cause: error });
    }
  }

  async function request<Schema extends v.GenericSchema>(
    schema: Schema,
    asked: Pick<Asked, "method" | "path" | "body">,
    call: StoreCall,
  ): Promise<v.InferOutput<Schema>> {
    return await limited(call, (signal) =>
      tryTo((headers) => repeat(signal, () => ask(schema, { ...asked, headers, signal })), signal),
    );
  }

  return {
    async append({ hour, name, lines }, call) {
      const path = `/v1/usage-records/${hour}/${name}`;
      await request(v.object({}), { method: "PUT", path, body: Buffer.from(lines) }, call);
    },

    async *read({ from, to }, call) {
      for (let hour = from; hour < to; ) {
        const dayEnd = hourAt(hourStart(hour) + DAY_HOURS * HOUR_MS);
        const next = dayEnd < to ? dayEnd : to;
        const path = `/v1/usage-records/${hour}/${next}`;
        const readHead = (line: string) => ({ expected: { ...readSize(line), sha256: undefined } });
        const opened = await tryTo((headers) => openBytes(path, { ...call, headers, readHead }), call.signal);
        try {
          if (opened !== undefined) yield* linesOf(opened.content);
        } finally {
          opened?.close();
        }
        hour = next;
      }
    },

    async hours(call) {
      return (await request(hoursSchema, { method: "GET", path: "/v1/usage-hours" }, call)).hours;
    },

    async batches(hour, call) {
      return (await request(batchesSchema, { method: "GET", path: `/v1/usage-batches/${hour}` }, call)).names;
    },

    async drop({ hour, names }, call) {
      const path = `/v1/usage-batches/${hour}/drop`;
      await request(v.object({}), { method: "POST", path, body: Buffer.from(JSON.stringify({ names })) }, call);
    },

    async recordedUntil(call) {
      return (await request(recordedUntilSchema, { method: "GET", path: "/v1/usage-until" }, call)).until;
    },

    async setRecordedUntil(hour, call) {
      await request(v.object({}), { method: "PUT", path: `/v1/usage-until/${hour}` }, call);
    },

    async mark(name, call) {
      return (await request(recordedUntilSchema, { method: "GET", path: `/v1/usage-marks/${name}` }, call)).until;
    },

    async setMark(name, hour, call) {
      await request(v.object({}), { method: "PUT", path: `/v1/usage-marks/${name}/${hour}` }, call);
    },
  };
}

function readSize(line: string): { sizeBytes: number } {
  return v.parse(recordsHeadSchema, JSON.parse(line));
}
