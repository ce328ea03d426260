// @runtimes bun node deno
import { appendFile, mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Registry } from "prom-client";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import * as v from "valibot";
import { type EventSink, openSink } from "../../../crds/sink/event-sink.ts";
import type { OutgoingEvent } from "../../../crds/sink/outgoing-event.ts";
import { sinkConfig, sinkEnvironment } from "../../../crds/sink/sink-config.ts";
import { eventually } from "../../eventually.ts";
import { silentLog } from "../silent-log.ts";
import { fastClock } from "./fast-clock.ts";
import { type Receiver, startReceiver } from "./receiver.ts";

interface Context {
  folder: string;
  /** Ended after each test. */
  readonly ends: (() => Promise<unknown>)[];
}

const test = suite<Context>("sink of events", { folder: "", ends: [] });
const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const OLD_SECRET = `whsec_${Buffer.alloc(32, 8).toString("base64")}`;

test.before.each(async (context) => {
  context.folder = await mkdtemp(join(tmpdir(), "tenancy-sink-"));
});
test.after.each(async ({ ends, folder }) => {
  for (const end of ends.splice(0).reverse()) await end();
  await rm(folder, { recursive: true, force: true });
});

async function receiverOf({ ends }: Context, options: Parameters<typeof startReceiver>[0] = {}): Promise<Receiver> {
  const receiver = await startReceiver(options);
  ends.push(receiver.stop);
  return receiver;
}

async function sinkOf(
  { folder, ends }: Context,
  { url, ...env }: { url: string } & Record<`TENANCY_SINK_${string}`, string>,
): Promise<EventSink & { metric(result: string): Promise<number> }> {
  const values = v.parse(v.object(sinkEnvironment), { TENANCY_SINK: url, TENANCY_SINK_FOLDER: folder, ...env });
  const config = sinkConfig(values, { program: "operator", types: ["usage", "audit"], namespace: "tenancy" });
  if (config === undefined) throw new Error("there is no sink");
  const registry = new Registry();
  const sink = await openSink(config, { registry, log: silentLog, steady: fastClock });
  ends.push(sink.close);
  return {
    ...sink,
    async metric(result) {
      const metric = await registry.getSingleMetric("tenancy_sink_events_total")?.get();
      return metric?.values.find(({ labels }) => labels.result === result)?.value ?? 0;
    },
  };
}

function idsOf(some: readonly number[]): string[] {
  return some.map((number) => `id-${number}`).sort();
}

function isEmpty(sink: EventSink): boolean {
  return sink.pending(["usage"]) === undefined;
}

function event(number: number, data: object = { number }): OutgoingEvent {
  const time = new Date(number * 1000).toISOString();
  return { type: "usage", id: `id-${number}`, subject: "alice", time, data };
}

function numbers(count: number, from = 0): number[] {
  return Array.from({ length: count }, (_, at) => from + at);
}

test("events arrive once, as signed CloudEvents of wanted types", async (context) => {
  const receiver = await receiverOf(context, { secret: SECRET });
  const sink = await sinkOf(context, {
    url: receiver.url,
    TENANCY_SINK_SECRET: `${OLD_SECRET},${SECRET}`,
    TENANCY_SINK_TOKEN: "t0ken",
    TENANCY_SINK_SOURCE: "/clusters/one",
  });
  for (const number of numbers(250)) void sink.add(event(number, { number, text: "ä\n\u2028" }));
  await sink.add({ ...event(999), type: "audit" });
  await eventually(() => isEmpty(sink));
  assert.equal(receiver.ids().sort(), idsOf(numbers(250)));
  const first = receiver.taken.find(({ events }) => events[0]?.id === "id-0");
  assert.is(first?.headers.authorization, "Bearer t0ken");
  const { type, source, subject, time, data } = first?.events[0] ?? {};
  assert.equal(
    { type, source, subject, time, data },
    {
      ...{ type: "dev.tenancy.usage", source: "/clusters/one", subject: "alice", time: new Date(0).toISOString() },
      data: { number: 0, text: "ä\n\u2028" },
    },
  );
  assert.is(await sink.metric("sent"), 250);
  await eventually(async () => (await readdir(join(context.folder, "operator"))).length === 0);
});

test("a batch of one is one event", async (context) => {
  const receiver = await receiverOf(context);
  const sink = await sinkOf(context, { url: receiver.url, TENANCY_SINK_BATCH: "1" });
  for (const number of numbers(20)) void sink.add(event(number));
  await eventually(() => receiver.taken.length === 20);
  assert.match(receiver.taken[0]?.headers["content-type"] ?? "", /^application\/cloudevents\+json/);
});

test("what a sink does not take is sent again", async (context) => {
  const answers: (number | undefined)[] = [503, undefined, 401, 307, 429];
  const seen = new Set<string>();
  const receiver = await receiverOf(context, {
    answer({ events }, response) {
      for (const { id } of events) seen.add(id);
      if (answers.length === 0) return 200;
      response.setHeader("location", "/elsewhere");
      return answers.shift();
    },
  });
  const sink = await sinkOf(context, { url: receiver.url });
  for (const number of numbers(3)) await sink.add(event(number));
  await eventually(() => isEmpty(sink));
  assert.equal(receiver.ids().sort(), idsOf(numbers(3)));
  assert.is(seen.size, 3);
});

test("an event that the sink refuses holds up no other one, and goes while it takes others", async (context) => {
  const receiver = await receiverOf(context, {
    answer: ({ events }) => (events.some(({ id }) => id === "id-37") ? 400 : 200),
  });
  const sink = await sinkOf(context, { url: receiver.url });
  let made = 0;
  while (made < 100) void sink.add(event(made++));
  await eventually(() => receiver.ids().length === 99);
  await eventually(async () => {
    await sink.add(event(made++));
    return (await sink.metric("refused")) === 1;
  });
  await eventually(() => isEmpty(sink));
  assert.equal(receiver.ids().sort(), idsOf(numbers(made).filter((number) => number !== 37)));
});

test("a sink that refuses all has a wrong setting: no event is given up", async (context) => {
  let isRight = false;
  let requests = 0;
  const receiver = await receiverOf(context, {
    answer() {
      requests += 1;
      return isRight ? 200 : 400;
    },
  });
  const sink = await sinkOf(context, { url: receiver.url });
  for (const number of numbers(250)) void sink.add(event(number));
  await eventually(() => requests > 20);
  isRight = true;
  await eventually(() => isEmpty(sink));
  assert.is(new Set(receiver.ids()).size, 250);
  assert.is(await sink.metric("refused"), 0);
});

test("an event that the sink fails on holds up no other one, and is sent when the sink can take it", async (context) => {
  let canTake = false;
  const receiver = await receiverOf(context, {
    answer: ({ events }) => (canTake || !events.some(({ id }) => id === "id-37") ? 200 : 500),
  });
  const sink = await sinkOf(context, { url: receiver.url });
  for (const number of numbers(250)) void sink.add(event(number));
  await eventually(() => new Set(receiver.ids()).size === 249);
  assert.is(sink.pending(["usage"]), "id-37");
  canTake = true;
  await eventually(() => isEmpty(sink));
  assert.is(new Set(receiver.ids()).size, 250);
});

test("a batch that is too large is sent in parts", async (context) => {
  const receiver = await receiverOf(context, { answer: ({ events }) => (events.length > 3 ? 413 : 200) });
  const sink = await sinkOf(context, { url: receiver.url });
  for (const number of numbers(100)) void sink.add(event(number));
  await eventually(() => isEmpty(sink));
  assert.is(new Set(receiver.ids()).size, 100);
});

test("the next process sends what one has left in its folder", async (context) => {
  // Nothing listens there any more.
  const gone = await startReceiver();
  await gone.stop();
  const first = await sinkOf(context, { url: gone.url });
  for (const number of numbers(250)) await first.add(event(number));
  await first.close();
  const files = (await readdir(join(context.folder, "operator"))).sort();
  // A write that the kill has cut.
  await appendFile(join(context.folder, "operator", files.at(-1) ?? ""), '{"specversion":"1.0","ty');

  const receiver = await receiverOf(context);
  const sink = await sinkOf(context, { url: receiver.url });
  await sink.add(event(250));
  await eventually(() => receiver.ids().length >= 251);
  assert.equal(receiver.ids().sort(), idsOf(numbers(251)));
});

/** Two files more than the four that can be sent at once: these stay, so with less room the newest go, or others'. */
const backlogBytes = "384Ki";

test("with a full backlog the oldest events go, and are counted", async (context) => {
  const gone = await startReceiver();
  await gone.stop();
  const sink = await sinkOf(context, { url: gone.url, TENANCY_SINK_BACKLOG: backlogBytes });
  assert.not(sink.isFull());
  for (const number of numbers(1000)) await sink.add(event(number, { filler: "x".repeat(400) }));
  assert.ok(sink.isFull());
  const lost = sink.lost();
  assert.ok(lost > 0);
  assert.is(await sink.metric("lost"), lost);
  await sink.close();

  const receiver = await receiverOf(context);
  await sinkOf(context, { url: receiver.url });
  await eventually(() => receiver.ids().length >= 1000 - lost);
  // Those that are being sent stay.
  const ids = new Set(receiver.ids());
  assert.is(ids.size, 1000 - lost);
  assert.ok(numbers(100, 900).every((number) => ids.has(`id-${number}`)));
});

for (const [what, owned] of [
  ["events of a tenant with many", (few: string, isMany: boolean) => ({ tenantId: isMany ? "many" : few })],
  [
    "audit records of a key that names another's tenant",
    (few: string, isMany: boolean) => ({
      actor: { kind: "key", id: isMany ? "many" : few },
      object: { tenant: "few-1" },
    }),
  ],
] as const) {
  test(`with a full backlog ${what} go, and not older ones of others`, async (context) => {
    const gone = await startReceiver();
    await gone.stop();
    const sink = await sinkOf(context, { url: gone.url, TENANCY_SINK_BACKLOG: backlogBytes });
    for (const number of numbers(1000)) {
      const owner = owned(`few-${number % 7}`, number % 10 > 0);
      await sink.add(event(number, { ...owner, filler: "x".repeat(400) }));
    }
    const lost = sink.lost();
    assert.ok(lost > 0);
    assert.is(await sink.metric("lost"), lost);
    await sink.close();

    const receiver = await receiverOf(context);
    await sinkOf(context, { url: receiver.url });
    await eventually(() => receiver.ids().length >= 1000 - lost);
    const ids = new Set(receiver.ids());
    assert.is(ids.size, 1000 - lost);
    const few = numbers(100).map((index) => `id-${index * 10}`);
    assert.equal(
      few.filter((id) => !ids.has(id)),
      [],
    );
  });
}

test("without a disk events wait in memory", async (context) => {
  let isUp = false;
  const receiver = await receiverOf(context, { answer: () => (isUp ? 200 : 503) });
  const sink = await sinkOf(context, { url: receiver.url });
  await rm(join(context.folder, "operator"), { recursive: true });
  for (const number of numbers(250)) await sink.add(event(number));
  isUp = true;
  await eventually(() => isEmpty(sink));
  assert.equal(receiver.ids().sort(), idsOf(numbers(250)));
});

test("a folder that cannot be written to stops the start", async (context) => {
  await appendFile(join(context.folder, "operator"), "");
  try {
    await sinkOf(context, { url: "http://127.0.0.1:1" });
    assert.unreachable();
  } catch (error) {
    assert.match(String(error), /TENANCY_SINK_FOLDER: .*; name a folder that the program may write to/);
  }
});

test.run();
