// @runtimes node bun deno
import { rmSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Registry } from "prom-client";
import * as assert from "uvu/assert";
import { openSink } from "../../../crds/sink/event-sink.ts";
import type { UsageRecord } from "../../../crds/usage/usage-record.ts";
import type { UsageStore } from "../../../crds/usage/usage-store.ts";
import { createUsageEvents, type UsageEvents } from "../../../operator/usage/usage-events.ts";
import { eventually } from "../../eventually.ts";
import { silentLog } from "../silent-log.ts";
import { fastClock } from "../sink/fast-clock.ts";
import { type Receiver, startReceiver } from "../sink/receiver.ts";
import { call } from "../snapshots/store-contract.ts";
import { volumeSuite } from "../snapshots/volume-suite.ts";

const test = volumeSuite<{ usage: UsageStore; receiver: Receiver; isUp: boolean; ends: (() => Promise<unknown>)[] }>(
  "usage for the sink",
);
const HOUR_MS = 3_600_000;
const NOON = Date.parse("2026-11-29T12:00:00.000Z");

test.before.each(async (context) => {
  context.usage = context.served.usage;
  context.isUp = true;
  context.receiver = await startReceiver({ answer: () => (context.isUp ? 200 : 503) });
  context.ends = [context.receiver.stop];
});
test.after.each(async ({ ends }) => {
  for (const end of ends.reverse()) await end();
});

/** An operator's term at a time, with a backlog of its own. */
async function operatorAt(
  time: { now: number },
  { usage, receiver, ends }: { usage: UsageStore; receiver: Receiver; ends: (() => Promise<unknown>)[] },
  { mostBytes = 2 ** 20 } = {},
): Promise<
  UsageEvents & { add(numbers: readonly number[], at?: number): Promise<void>; lose(): void; isSent(): boolean }
> {
  const folder = await mkdtemp(join(tmpdir(), "tenancy-sink-"));
  const config = {
    ...{ url: receiver.url, folder, types: new Set(["usage"] as const), source: "/x", secrets: [], token: undefined },
    ...{ batch: 100, mostBytes },
  };
  const sink = await openSink(config, { registry: new Registry(), log: silentLog, steady: fastClock });
  const lose = () => rmSync(folder, { recursive: true, force: true });
  ends.push(sink.close, async () => lose());
  const events = createUsageEvents({ sink, store: usage, mayHaveStore: async () => true, now: () => time.now });
  return {
    ...events,
    lose,
    isSent: () => sink.pending(["usage"]) === undefined,
    async add(numbers, at = time.now) {
      const records = numbers.map((number) => recordAt(at, number));
      const hour = new Date(at).toISOString().slice(0, 13);
      const lines = records.map((record) => `${JSON.stringify(record)}\n`).join("");
      await events.store.append({ hour, name: `a-${numbers[0]}`, lines }, call);
    },
  };
}

function recordAt(ms: number, number: number): UsageRecord {
  const from = new Date(ms).toISOString();
  return {
    ...{ id: `session-${number}/${from.slice(0, 13)}`, kind: "session", tenantId: "alice", workload: "hello" },
    ...{ labels: {}, source: "pool", from, to: from, vcpuSeconds: 0, mibSeconds: 0 },
  };
}

function ids(receiver: Receiver): string[] {
  return [...new Set(receiver.ids())].sort();
}

test("what waited in a lost backlog is sent from the store, and what was sent hours ago is not", async (context) => {
  const { signal } = call;
  const time = { now: NOON };
  const first = await operatorAt(time, context);
  await first.follow(signal);
  await first.add([1]);
  await eventually(() => first.isSent());
  // Known to be sent once the time for late records is over.
  for (let step = 0; step < 4; step += 1) {
    time.now += HOUR_MS;
    await first.follow(signal);
  }
  context.isUp = false;
  await first.add([2]);
  await first.follow(signal);
  first.lose();

  context.receiver.taken.length = 0;
  context.isUp = true;
  const second = await operatorAt(time, context);
  await second.follow(signal);
  await eventually(() => context.receiver.ids().includes("session-2/2026-11-29T16"));
  assert.equal(ids(context.receiver), ["session-2/2026-11-29T16"]);
});

test("a record of an hour that counted as sent is sent by the next leader too", async (context) => {
  const { signal } = call;
  const time = { now: NOON };
  const first = await operatorAt(time, context);
  for (let step = 0; step < 5; step += 1) {
    await first.follow(signal);
    time.now += HOUR_MS;
  }
  context.isUp = false;
  await first.add([7], NOON + HOUR_MS);
  await first.follow(signal);
  first.lose();

  context.isUp = true;
  const second = await operatorAt(time, context);
  await second.follow(signal);
  await eventually(() => context.receiver.ids().includes("session-7/2026-11-29T13"));
});

test("what did not fit into the backlog is sent from the store once there is room", async (context) => {
  const time = { now: NOON };
  const operator = await operatorAt(time, context, { mostBytes: 512 * 1024 });
  await operator.follow(call.signal);
  context.isUp = false;
  const numbers = Array.from({ length: 3000 }, (_, number) => number);
  for (let at = 0; at < numbers.length; at += 500) await operator.add(numbers.slice(at, at + 500));
  await operator.follow(call.signal);
  context.isUp = true;
  await eventually(async () => {
    await operator.follow(call.signal);
    return ids(context.receiver).length === numbers.length;
  });
});

test.run();
