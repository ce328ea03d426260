// @runtimes bun node deno
// @limit 300
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../../crds/client/clock.ts";
import {
  createMessengerClient,
  createPostFetch,
  MessengerError,
} from "../../../edge/gateway/messenger/messenger-client.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { FakeMessenger } from "../../messenger/fake-messenger.ts";
import { errorAnswer, type FaultKind, tooMany } from "../../messenger/fault.ts";
import { echo } from "./answered.ts";
import { MemoryCluster, messengerTrigger } from "./cluster.ts";
import { fastClock } from "./fast-clock.ts";
import { startReplica } from "./replica.ts";

const SECRET = "AAHplanted-secret_of_the_bot";
const TOKEN = `123456:${SECRET}`;
const fetch = createPostFetch({ clock: systemClock });
const test = suite("the bot's token stays secret, over HTTP");
const server = new FakeMessenger();
let url = "";
test.before(async () => {
  url = await server.start();
  server.bot(TOKEN);
});
test.after(() => server.stop());
test.after.each(() => server.clearFaults());

/** All that a log could show of an error. */
function everythingOf(error: unknown, depth = 0): string {
  if (typeof error !== "object" || error === null || depth > 6) return String(error);
  return Object.getOwnPropertyNames(error)
    .map((key) => `${key}: ${everythingOf((error as Record<string, unknown>)[key], depth + 1)}`)
    .join("\n");
}

const echoing = `Unknown bot ${TOKEN}, see /bot${encodeURIComponent(TOKEN)}/getUpdates`;
const faults: [string, FaultKind, Partial<MessengerError>][] = [
  ["429", tooMany(3), { code: 429, retryAfterMs: 3_000, uncertain: false }],
  ["an error that repeats the token", errorAnswer(400, echoing), { code: 400, uncertain: false }],
  ["a gateway's page", { kind: "answer", status: 502, body: `<p>${TOKEN}</p>` }, { code: 502, uncertain: true }],
  ["JSON that breaks off", { kind: "answer", status: 200, body: `{"ok":true,"result":"${TOKEN}` }, { code: 200 }],
  ["a cut connection", { kind: "drop", done: false }, { code: undefined, uncertain: true }],
];
for (const [what, fault, expected] of faults) {
  test(`${what}: an error with what matters, and without the token`, async () => {
    server.fault({ method: "sendMessage", fault });
    const client = createMessengerClient({
      token: TOKEN,
      apiBaseUrl: url,
      clock: systemClock,
      fetch,
    });
    try {
      await client.sendMessage({ chatId: 1, text: "a" }, new AbortController().signal);
      assert.unreachable();
    } catch (error) {
      if (!(error instanceof MessengerError)) throw error;
      for (const [key, value] of Object.entries(expected)) assert.is(error[key as keyof MessengerError], value, key);
      assert.not.match(everythingOf(error), SECRET);
    }
  });
}

test("a message whose connection ends without an answer is sent once", async () => {
  const client = createMessengerClient({ token: TOKEN, apiBaseUrl: url, clock: systemClock, fetch });
  const bot = server.bot(TOKEN);
  bot.know({ id: 3, type: "private" });
  const signal = new AbortController().signal;
  await client.sendMessage({ chatId: 3, text: "on a new connection" }, signal);
  server.fault({ method: "sendMessage", times: 2, fault: { kind: "drop", done: true } });
  for (const text of ["on a kept one", "on another new one"]) {
    const error = await client.sendMessage({ chatId: 3, text }, signal).catch((reason: unknown) => reason);
    if (!(error instanceof MessengerError)) throw error;
    assert.is(error.uncertain, true);
  }
  const texts = bot.sent.filter(({ chatId }) => chatId === 3).map(({ text }) => text);
  assert.equal(texts, ["on a new connection", "on a kept one", "on another new one"]);
});

test("nobody listens: certainly not sent", async () => {
  const other = new FakeMessenger();
  const gone = await other.start();
  await other.stop();
  const client = createMessengerClient({ token: TOKEN, apiBaseUrl: gone, clock: systemClock, fetch });
  try {
    await client.sendMessage({ chatId: 1, text: "a" }, new AbortController().signal);
    assert.unreachable();
  } catch (error) {
    if (!(error instanceof MessengerError)) throw error;
    assert.is(error.uncertain, false);
    assert.not.match(everythingOf(error), SECRET);
  }
});

test("a long poll ends at once when its signal is aborted, with the signal's reason", async () => {
  const client = createMessengerClient({ token: TOKEN, apiBaseUrl: url, clock: systemClock, fetch });
  const stop = new AbortController();
  const polls = server.count("getUpdates");
  const poll = client.getUpdates({ offset: undefined, limit: 1, timeoutSeconds: 600, allowedUpdates: [] }, stop.signal);
  const reason = new Error("enough");
  poll.catch(() => undefined);
  await waitUntil(() => server.count("getUpdates") > polls, { what: "the poll", limitMs: 120_000, intervalMs: 1 });
  stop.abort(reason);
  try {
    await poll;
    assert.unreachable();
  } catch (error) {
    assert.is(error, reason);
  }
});

test("through every trouble, neither logs nor status nor state hold it", async () => {
  const clock = fastClock(100);
  const cluster = new MemoryCluster(clock);
  cluster.secret(TOKEN);
  const bot = server.bot(TOKEN);
  const run = startReplica({
    cluster,
    trigger: messengerTrigger({ config: { apiBaseUrl: url, pollTimeoutSeconds: 1 } }),
    fetch,
    run: echo,
  });
  for (const method of ["deleteWebhook", "getUpdates", "sendMessage"]) {
    for (const [, fault] of faults) server.fault({ method, fault, when: ({ chat_id }) => chat_id !== 2 });
  }
  for (let index = 0; index < 8; index++) bot.write({ chat: { id: 1, type: "private" }, text: `${index}` });
  bot.write({ chat: { id: 2, type: "private" }, text: "x" });
  await waitUntil(() => bot.updates.length === 0, { what: "all answered", limitMs: 120_000 });
  cluster.secret("999:another-secret");
  await waitUntil(() => run.reports.some((report) => report?.includes("refuses")), {
    what: "it refused",
    limitMs: 120_000,
  });
  const shown = [...run.logs, ...run.reports, ...cluster.written, ...cluster.leaseNames()].join("\n");
  run.kill();
  assert.ok(run.logs.length > 5);
  assert.not.match(shown, SECRET);
  assert.not.match(shown, "another-secret");
});

test.run();
