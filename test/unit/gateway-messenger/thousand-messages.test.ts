// @runtimes node bun deno
// @limit 600
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../../crds/client/clock.ts";
import { sleep } from "../../../crds/waits.ts";
import { createPostFetch } from "../../../edge/gateway/messenger/messenger-client.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { FakeMessenger } from "../../messenger/fake-messenger.ts";
import { answered } from "./answered.ts";
import { MemoryCluster, messengerTrigger } from "./cluster.ts";
import { fastClock } from "./fast-clock.ts";
import { type Replica, startReplica } from "./replica.ts";

const test = suite("1 000 messages over HTTP");
const TOKEN = "123456:secret-of-the-bot";
const MESSAGES = 1_000;
const CHATS = 50;
const RESTARTS = 24;

/** mulberry32 */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

test("from 50 chats, with replicas killed and stopped at random: each is answered once, in the order of its chat", async () => {
  const seed = Number(process.env.TENANCY_TEST_SEED ?? Date.now() % 1_000_000);
  const random = randomFrom(seed);
  const clock = fastClock(20);
  const cluster = new MemoryCluster(clock);
  const server = new FakeMessenger({ clock });
  const url = await server.start();
  const bot = server.bot(TOKEN);
  cluster.secret(TOKEN);
  const trigger = messengerTrigger({ config: { apiBaseUrl: url, pollTimeoutSeconds: 5 } });
  const wanted = new Map<number, string[]>();
  const chatOf = (index: number) => ({
    id: 1 + (index % CHATS),
    type: index % CHATS < 10 ? ("supergroup" as const) : ("private" as const),
  });
  let writtenCount = 0;
  function write(): void {
    const chat = chatOf(Math.floor(random() * CHATS));
    const text = `m${writtenCount++}`;
    wanted.set(chat.id, [...(wanted.get(chat.id) ?? []), `re: ${text}`]);
    bot.write({ chat, text });
  }
  let runs = 0;
  const fetch = createPostFetch({ clock: systemClock });
  const start = () =>
    startReplica({
      cluster,
      trigger,
      fetch,
      async run(event, { signal }) {
        runs++;
        await sleep(random() * 400, { clock, signal });
        return answered(`re: ${event.text}`);
      },
    });
  const replicas: [Replica, Replica] = [start(), start()];
  const all: Replica[] = [...replicas];
  let kills = 0;
  let stops = 0;
  try {
    const writing = (async () => {
      while (writtenCount < MESSAGES) {
        for (let i = 0; i < 10; i++) write();
        await sleep(random() * 1_500, { clock });
      }
    })();
    for (let restart = 0; restart < RESTARTS; restart++) {
      const before = bot.sent.length;
      const more = Math.floor(random() * 60);
      await waitUntil(() => bot.sent.length >= Math.min(MESSAGES, before + more), {
        what: `more answers than ${before}`,
        limitMs: 120_000,
        intervalMs: 1,
        explain: () => all.flatMap(({ logs }) => logs.slice(-3)).join("\n"),
      });
      const index = random() < 0.5 ? 0 : 1;
      if (random() < 0.6) {
        kills++;
        replicas[index].kill();
      } else {
        stops++;
        await replicas[index].stop();
      }
      replicas[index] = start();
      all.push(replicas[index]);
    }
    await writing;
    await waitUntil(() => bot.sent.length >= MESSAGES && bot.updates.length === 0, {
      what: `all answers: ${bot.sent.length}`,
      limitMs: 120_000,
      explain: () => all.flatMap(({ logs }) => logs.slice(-3)).join("\n"),
    });
  } finally {
    for (const replica of all) replica.kill();
    await server.stop();
  }
  const got = new Map<number, string[]>();
  for (const { chatId, text } of bot.sent) got.set(chatId, [...(got.get(chatId) ?? []), text]);
  const lines = all.flatMap(({ logs }) => logs);
  const found = lines.filter((line) => /checked whether a reply.*"found":true/.test(line)).length;
  const looked = lines.filter((line) => /checked whether a reply/.test(line)).length;
  console.log(
    `note: ${bot.sent.length} answers to ${MESSAGES} messages of ${wanted.size} chats, ${kills} kills, ${stops} stops, ` +
      `${looked} replies uncertain of which ${found} had been sent, ${runs} runs, ${cluster.written.length} writes of the state, ` +
      `seed ${seed}`,
  );
  for (const [chat, texts] of wanted) assert.equal(got.get(chat), texts, `chat ${chat}, seed ${seed}`);
  assert.is(bot.sent.length, MESSAGES);
});

test.run();
