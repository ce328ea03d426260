// @runtimes bun
// @limit 240
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { sleep } from "../../../crds/waits.ts";
import { FakeMessenger } from "../../messenger/fake-messenger.ts";
import { tooMany } from "../../messenger/fault.ts";
import { manualClock } from "../manual-clock.ts";
import { answered } from "./answered.ts";
import { MemoryCluster, messengerTrigger } from "./cluster.ts";
import { type Mishap, type Replica, type Run, startReplica } from "./replica.ts";
import { simulate } from "./simulate.ts";

const test = suite("messages are answered once, whatever dies when");
const TOKEN = "123456:secret-of-the-bot";
const RUNS = 2 * Number(process.env.TENANCY_MODEL_SEQUENCES ?? 200);

interface Message {
  readonly chat: number;
  /** Milliseconds after the start. */
  readonly at: number;
  readonly runMs: number;
  readonly parts: number;
}

interface Plan {
  readonly messages: readonly Message[];
  /** What happens to the first, second, … process of the gateway; two run side by side. */
  readonly mishaps: readonly Mishap[];
  /** Calls of sendMessage that are refused, and those that are cut before or after they were carried out. */
  readonly faults: readonly { nth: number; kind: "429" | "502" | "dropped before" | "dropped after" | "stalled" }[];
  readonly touches: readonly number[];
  /** When which of the two replicas cannot reach the API server, and for how long, in milliseconds. */
  readonly cuts: readonly { at: number; replica: number; forMs: number }[];
}

const message = fc.record({
  chat: fc.integer({ min: 1, max: 4 }),
  at: fc.nat(20_000),
  runMs: fc.constantFrom(0, 10, 300, 3_000, 15_000),
  parts: fc.constantFrom(0, 1, 1, 1, 1, 2, 3),
});
const plan: fc.Arbitrary<Plan> = fc.record({
  messages: fc.array(message, { minLength: 1, maxLength: 12 }),
  mishaps: fc.array(
    fc.record({ step: fc.integer({ min: 1, max: 60 }), kind: fc.constantFrom("before", "after", "freeze", "stop") }),
    {
      maxLength: 6,
    },
  ),
  faults: fc.array(
    fc.record({
      nth: fc.nat(8),
      kind: fc.constantFrom("429", "502", "dropped before", "dropped after", "stalled"),
    }),
    { maxLength: 3 },
  ),
  touches: fc.array(fc.nat(30_000), { maxLength: 4 }),
  cuts: fc.array(fc.record({ at: fc.nat(20_000), replica: fc.nat(1), forMs: fc.constantFrom(1_000, 12_000, 40_000) }), {
    maxLength: 2,
  }),
});

const seen = { sequences: 0, messages: 0, mishaps: 0, uncertain: 0, found: 0, superseded: 0, runs: 0 };

/** Longer than a message may be, so that it is sent in parts. */
function replyOf(parts: number, name: string): string {
  return Array.from({ length: parts }, (_, index) => `${name}.${index}`.padEnd(parts > 1 ? 3_000 : 0, ".")).join(
    "\n\n",
  );
}

async function play({ messages, mishaps, faults, touches, cuts }: Plan): Promise<void> {
  const clock = manualClock();
  const cluster = new MemoryCluster(clock);
  const server = new FakeMessenger({ clock });
  const bot = server.bot(TOKEN);
  cluster.secret(TOKEN);
  const trigger = messengerTrigger({});
  const written = new Map<number, { name: string; chat: number; message: Message }>();
  messages.forEach((message, index) => {
    clock.after(message.at, () => {
      const name = `m${index}`;
      const id = bot.write({
        chat: { id: message.chat, type: message.chat === 4 ? "supergroup" : "private" },
        text: name,
      });
      written.set(id, { name, chat: message.chat, message });
    });
  });
  for (const at of touches) clock.after(at, () => cluster.touch("bot"));
  const after = new Map<number, (typeof faults)[number]["kind"]>(faults.map(({ nth, kind }) => [nth, kind]));
  let sends = 0;
  let kind: string | undefined;
  const next = (wanted: string) => () => kind === wanted;
  const fault = (wanted: string, what: Parameters<typeof server.fault>[0]["fault"]) =>
    server.fault({ method: "sendMessage", times: 99, when: next(wanted), fault: what });
  fault("429", tooMany(3));
  fault("502", { kind: "answer", status: 502, body: "<html>bad gateway</html>" });
  fault("dropped before", { kind: "drop", done: false });
  fault("dropped after", { kind: "drop", done: true });
  fault("stalled", { kind: "stall", done: true });

  const run: Run = async (event, { signal }) => {
    const id = Number(event.id.split("-")[1]);
    const { message, name } = written.get(id) ?? { message: undefined, name: "?" };
    if (message === undefined) throw new Error(`no message ${event.id}`);
    seen.runs++;
    await sleep(message.runMs, { clock, signal });
    return answered(replyOf(message.parts, name));
  };
  const queue = [...mishaps];
  const replicas: Replica[] = [];
  const start = () =>
    replicas.push(
      startReplica({
        cluster,
        trigger,
        run,
        mishap: queue.shift(),
        fetch: (url, init) => {
          if (url.endsWith("/sendMessage")) kind = after.get(sends++);
          return server.fetch(url, init);
        },
      }),
    );
  start();
  start();
  for (const { at, replica, forMs } of cuts) {
    clock.after(at, () => {
      const cut = replicas[replica];
      cut?.partition(true);
      clock.after(forMs, () => cut?.partition(false));
    });
  }

  const expected = () => [...written.values()].flatMap(({ message, name }) => partsOf(message, name));
  const quiet = () =>
    written.size === messages.length &&
    bot.updates.length === 0 &&
    bot.sent.length >= expected().length &&
    (cluster.kept("bot").state.replies as unknown[] | undefined)?.length === 0;
  const all: Replica[] = [];
  const explain = () =>
    JSON.stringify(
      {
        left: bot.updates.map((update) => update.update_id),
        kept: cluster.kept("bot"),
        written: cluster.written,
        sent: bot.sent,
        logs: all.map(({ logs, steps, gone }) => [steps(), gone(), ...logs.slice(-12)]),
      },
      null,
      1,
    );
  await simulate(clock, explain, () => {
    for (const replica of replicas) if (!all.includes(replica)) all.push(replica);
    // Whoever dies is started anew, as a Deployment does it.
    for (const replica of replicas.splice(0)) {
      if (replica.gone()) start();
      else replicas.push(replica);
    }
    return quiet();
  });
  for (const replica of all) replica.kill();
  const sent = bot.sent.map(({ chatId, text }) => `${chatId} ${firstWord(text)}`);
  assert.equal([...sent].sort(), expected().sort(), "every part of every reply once");
  for (const chat of new Set(messages.map((message) => message.chat))) {
    const inChat = [...written.entries()].sort(([a], [b]) => a - b).filter(([, { chat: at }]) => at === chat);
    const order = inChat.flatMap(([, { message, name }]) => partsOf(message, name));
    assert.equal(
      sent.filter((text) => text.startsWith(`${chat} `)),
      order,
      `the order of chat ${chat}`,
    );
  }
  seen.sequences++;
  seen.messages += messages.length;
  seen.mishaps += mishaps.length - queue.length;
  for (const { logs } of all) {
    seen.uncertain += logs.filter((line) => /checked whether a reply/.test(line)).length;
    seen.found += logs.filter((line) => /checked whether a reply.*"found":true/.test(line)).length;
    seen.superseded += logs.filter((line) => /SupersededError/.test(line)).length;
  }
}

function partsOf({ parts, chat }: Message, name: string): string[] {
  return Array.from({ length: parts }, (_, index) => `${chat} ${name}.${index}`);
}

function firstWord(text: string): string {
  return /^m\d+\.\d+/.exec(text)?.[0] ?? text;
}

test("two replicas, killed before or after any call, frozen, or cut off: each reply once, in the order of its chat", async () => {
  await fc.assert(fc.asyncProperty(plan, play), { numRuns: RUNS });
  console.log(`note: ${JSON.stringify(seen)}`);
  assert.ok(seen.uncertain > 0, "no sequence met the uncertain window");
});

test.run();
