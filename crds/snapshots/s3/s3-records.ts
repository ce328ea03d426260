import { inTurns } from "../../in-turns.ts";
import { isUsageHour, type UsageHour } from "../../usage/usage-hour.ts";
import { isBatchName, linesOf, type UsageStore } from "../../usage/usage-store.ts";
import { linkSignals } from "../../waits.ts";
import type { LimitCall } from "../limit-calls.ts";
import { type StoreCall, StoreError } from "../snapshot-store.ts";
import { isMissing, type S3Bucket } from "./s3-bucket.ts";
import type { S3Layout } from "./s3-layout.ts";

/** How many batches are in memory at once. */
const BATCHES_AT_ONCE = 16;

/** Usage records as objects `usage/<hour>/<batch>.ndjson`, which are written once. */
export function createS3Records({
  bucket,
  layout,
  limited,
}: {
  bucket: S3Bucket;
  layout: S3Layout;
  limited: LimitCall;
}): UsageStore {
  const readHour = (name: string, call: StoreCall): Promise<UsageHour | undefined> =>
    limited(call, async (signal) => {
      const answer = await bucket.send({ method: "GET", key: layout.usage + name, signal });
      if (isMissing(answer)) return undefined;
      const hour = bucket.expect(answer, "read until when usage is recorded", 200).body.toString("utf8").trim();
      return isUsageHour(hour) ? hour : undefined;
    });

  const writeHour = (name: string, hour: UsageHour, call: StoreCall): Promise<void> =>
    limited(call, async (signal) => {
      const what = "write until when usage is recorded";
      await bucket.put(layout.usage + name, Buffer.from(`${hour}\n`), { what, signal });
    });

  async function* batchesOf(
    { from, to }: { from: string; to: string },
    signal: AbortSignal,
  ): AsyncGenerator<readonly string[]> {
    for await (const objects of bucket.pages(layout.usage, { after: layout.usage + from, signal })) {
      const keys = objects.map(({ key }) => key).filter((key) => key < layout.usage + to);
      yield keys.filter((key) => key.endsWith(".ndjson"));
      if (keys.length < objects.length) return;
    }
  }

  async function readBatch(key: string, signal: AbortSignal): Promise<string[]> {
    const answer = await bucket.send({ method: "GET", key, signal });
    if (isMissing(answer)) throw new StoreError("the usage records were merged in the meantime", { isTransient: true });
    const { body } = bucket.expect(answer, "read usage records", 200);
    const lines: string[] = [];
    for await (const some of linesOf(once(body))) lines.push(...some);
    return lines;
  }

  return {
    append: ({ hour, name, lines }, call) =>
      limited(call, async (signal) => {
        const headers = { ...bucket.encryption, "if-none-match": "*" };
        const key = `${layout.usage}${hour}/${name}.ndjson`;
        const answer = await bucket.send({ method: "PUT", key, headers, body: Buffer.from(lines), signal });
        // A name has one content, so an earlier try has succeeded.
        if (answer.status !== 412) bucket.expect(answer, "write usage records", 200);
      }),

    async *read(range, call) {
      const reading = linkSignals(call.signal, AbortSignal.timeout(call.timeoutMs));
      const { signal } = reading;
      try {
        for await (const keys of batchesOf(range, signal)) {
          for (let at = 0; at < keys.length; at += BATCHES_AT_ONCE) {
            yield* await inTurns(keys.slice(at, at + BATCHES_AT_ONCE), (key) => readBatch(key, signal));
          }
        }
      } finally {
        reading.close();
      }
    },

    hours: (call) =>
      limited(call, async (signal) => {
        const hours = new Set<UsageHour>();
        for await (const objects of bucket.pages(layout.usage, { signal })) {
          for (const { key } of objects) {
            const [hour = ""] = key.slice(layout.usage.length).split("/");
            if (isUsageHour(hour)) hours.add(hour);
          }
        }
        return [...hours];
      }),

    batches: (hour, call) =>
      limited(call, async (signal) => {
        const objects = await bucket.list(`${layout.usage}${hour}/`, signal);
        const names = objects.map(({ key }) => /([^/]+)\.ndjson$/.exec(key)?.[1] ?? "");
        return names.filter(isBatchName);
      }),

    drop: ({ hour, names }, call) =>
      limited(call, async (signal) => {
        await inTurns(names, (name) => bucket.erase(`${layout.usage}${hour}/${name}.ndjson`, signal));
      }),

    recordedUntil: (call) => readHour("until", call),
    setRecordedUntil: (hour, call) => writeHour("until", hour, call),
    mark: readHour,
    setMark: writeHour,
  };
}

async function* once(body: Buffer): AsyncGenerator<Uint8Array> {
  yield body;
}
