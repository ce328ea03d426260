// @runtimes bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { sleep } from "../../../crds/waits.ts";
import { createPolledBots } from "../../../edge/gateway/messenger/polled-bots.ts";
import { createMessenger } from "../../../edge/gateway/messenger/start-messenger.ts";
import { errorAnswer, tooMany } from "../../messenger/fault.ts";
import { answered } from "./answered.ts";
import { pass } from "./simulate.ts";
import { type TestEnvironment, TOKEN, testEnvironment } from "./test-environment.ts";

const test = suite("polling a bot");
let on: TestEnvironment;
test.before.each(() => {
  on = testEnvironment();
});
test.after.each(() => on.end());

test("a webhook is removed before the first poll, and what waited on the server is answered", async () => {
  on.bot.webhook = "https://elsewhere.test/";
  on.write(1, "before");
  on.start();
  await on.untilAnswered();
  assert.equal(on.said(1), ["re: before"]);
  assert.is(on.server.count("deleteWebhook"), 1);
  assert.is(on.bot.webhook, undefined);
});

test("polls ask for messages for 30 s, and for what the trigger says", async () => {
  on.start();
  await on.until("a poll", () => on.server.polls.length === 1);
  assert.equal(on.server.polls[0], { limit: 100, timeout: 30, allowed_updates: ["message"] });
  on.end();
  on = testEnvironment();
  on.start({ config: { pollTimeoutSeconds: 7, updateTypes: ["message", "callback_query"] } });
  await on.until("a poll", () => on.server.polls.length === 1);
  assert.equal(on.server.polls[0], { limit: 100, timeout: 7, allowed_updates: ["message", "callback_query"] });
});

test("an update is confirmed only once its answer is written in the trigger's status", async () => {
  on.start({
    run: (event, { signal }) => sleep(20_000, { clock: on.clock, signal }).then(() => answered(`${event.text}`)),
  });
  const id = on.write(1, "a");
  await pass(on.clock, 19_000);
  assert.is(on.bot.updates.length, 1);
  assert.ok(on.server.polls.every(({ offset }) => offset === undefined || Number(offset) <= id));
  await on.untilAnswered();
  assert.is(on.cluster.kept("bot").state.offset, id + 1);
});

test("a message of one chat is answered while another chat's takes long", async () => {
  on.start({
    run: (event, { signal }) =>
      sleep(event.text === "slow" ? 60_000 : 0, { clock: on.clock, signal }).then(() => answered(`re: ${event.text}`)),
  });
  on.write(1, "slow");
  await pass(on.clock, 5_000);
  on.write(2, "quick");
  await pass(on.clock, 1_500);
  assert.equal(on.said(2), ["re: quick"]);
  assert.equal(on.said(1), []);
  assert.equal(on.cluster.kept("bot").state.answered, [1001]);
  await on.untilAnswered();
  assert.equal(on.cluster.kept("bot").state.answered, []);
});

test("sixteen chats are at work at once, and no more", async () => {
  let now = 0;
  let most = 0;
  for (let chat = 1; chat <= 40; chat++) on.write(chat, "a");
  on.start({
    async run(_, { signal }) {
      most = Math.max(most, ++now);
      await sleep(1_000, { clock: on.clock, signal });
      now--;
      return answered("b");
    },
  });
  await on.untilAnswered();
  assert.is(most, 16);
  assert.is(on.bot.sent.length, 40);
});

test("429 is waited out to the second, by polls and by replies, and other chats do not wait with", async () => {
  on.start();
  await on.until("a poll", () => on.server.polls.length === 1);
  on.server.fault({ method: "sendMessage", when: ({ chat_id }) => chat_id === 1, fault: tooMany(40) });
  const asked = on.clock.now();
  on.write(1, "a");
  on.write(2, "b");
  await on.until("the other chat's", () => on.said(2).length === 1);
  assert.ok(on.clock.now() - asked < 5_000);
  await on.until("the reply", () => on.said(1).length === 1);
  assert.ok(on.clock.now() - asked >= 40_000, `${on.clock.now() - asked}`);
  assert.ok(on.clock.now() - asked < 45_000, `${on.clock.now() - asked}`);
  assert.is(on.server.count("editMessageReplyMarkup"), 0, "a refusal leaves no doubt");

  await on.untilAnswered();
  on.server.fault({ method: "getUpdates", fault: tooMany(77) });
  const polls = on.server.count("getUpdates");
  await on.until("the next poll", () => on.server.count("getUpdates") >= polls + 2);
  const [refused = 0, next = 0] = on.server.times("getUpdates").slice(polls);
  assert.is(next - refused, 77_000);
});

test("a conflict is tried five times, then shown in the status, and tried every minute", async () => {
  const replica = on.start();
  const conflict = errorAnswer(409, "Conflict: terminated by other getUpdates request");
  on.server.fault({ method: "getUpdates", times: 8, fault: conflict });
  await on.until("the sixth try", () => on.server.count("getUpdates") === 6);
  assert.match(replica.reports.at(-1) ?? "", /^another program polls this bot/);
  await on.until("the ninth", () => on.server.count("getUpdates") >= 9);
  const times = on.server.times("getUpdates").slice(0, 9);
  const delays = times.slice(1).map((at, index) => at - (times[index] ?? 0));
  assert.equal(delays, [800, 1_600, 3_200, 6_400, 12_800, 60_000, 60_000, 60_000]);
  on.write(1, "a");
  await on.untilAnswered();
  await on.until("calm", () => replica.reports.at(-1) === undefined);
  assert.equal(on.said(1), ["re: a"]);
});

test("a webhook that somebody sets while we poll is removed", async () => {
  on.start();
  await on.until("a poll", () => on.server.polls.length === 1);
  on.bot.webhook = "https://elsewhere.test/";
  await on.until("it to go", () => on.bot.webhook === undefined);
  on.write(1, "a");
  await on.untilAnswered();
});

for (const [what, fault] of [
  ["a gateway's page", { kind: "answer", status: 502, body: "<html>bad gateway</html>" }],
  ["an internal error", errorAnswer(500, "Internal Server Error")],
  ["a cut connection", { kind: "drop", done: false }],
  ["an answer of another kind", { kind: "answer", status: 200, body: "[]" }],
  ["a result of another kind", { kind: "answer", status: 200, body: '{"ok":true,"result":{}}' }],
  ["half an answer", { kind: "answer", status: 200, body: '{"ok":true,"result":[{"upd' }],
] as const) {
  test(`${what}: polls back off from 0.8 s to 30 s, say so, and go on`, async () => {
    const replica = on.start();
    on.server.fault({ method: "getUpdates", times: 9, fault });
    on.write(1, "a");
    await on.until("the tenth try", () => on.server.count("getUpdates") >= 10);
    const tries = on.server.times("getUpdates").slice(0, 10);
    const delays = tries.slice(1).map((at, index) => at - (tries[index] ?? 0));
    assert.equal(delays, [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000, 30_000]);
    assert.match(replica.passing.join(), /the messenger cannot be reached, trying again/);
    await on.untilAnswered();
    assert.is(replica.reports.at(-1), undefined);
    assert.equal(on.said(1), ["re: a"]);
  });
}

test("a poll without a byte for 15 s more than its own time is cut", async () => {
  on.start();
  on.server.fault({ method: "getUpdates", fault: { kind: "stall", done: false } });
  await on.until("the stalled poll", () => on.server.count("getUpdates") === 1);
  on.write(1, "a");
  await on.untilAnswered();
  const [stalled = 0, next = 0] = on.server.times("getUpdates");
  assert.is(next - stalled, 45_000 + 800);
});

test("a wrong token is shown in the status; the right one is used at once", async () => {
  on.cluster.secret("999:wrong");
  const replica = on.start();
  await on.until("the report", () => replica.reports.length > 0);
  assert.match(replica.reports[0] ?? "", /refuses the bot's token: store the right one in Secret "bot", key "token"/);
  assert.equal(replica.passing, []);
  on.write(1, "a");
  const changed = on.clock.now();
  on.cluster.secret(TOKEN);
  await on.untilAnswered();
  assert.ok(on.clock.now() - changed < 5_000);
  assert.is(replica.reports.at(-1), undefined);
});

test("a Secret that is missing, or holds no token, is shown in the status until it is there", async () => {
  on.cluster.secret(undefined);
  const replica = on.start();
  await on.until("the report", () => replica.reports.length > 0);
  assert.match(replica.reports[0] ?? "", /Secret "bot" does not exist/);
  on.cluster.secret("no token/at all");
  await on.until("the second report", () => replica.reports.length > 1);
  assert.match(replica.reports[1] ?? "", /does not contain a bot token/);
  assert.equal(replica.passing, replica.reports.slice(0, 1), "only what is not there may come by itself");
  assert.is(on.server.calls.size, 0, "no call with it");
  on.cluster.secret(`${TOKEN}\n`);
  on.write(1, "a");
  await on.untilAnswered();
});

test("a renewed token of the bot keeps its place; another bot's token does not", async () => {
  on.start();
  on.write(1, "a");
  await on.untilAnswered();
  const renewed = "123456:renewed";
  on.server.renewToken(TOKEN, renewed);
  on.cluster.secret(renewed);
  on.write(1, "b");
  await on.untilAnswered();
  assert.is(on.cluster.kept("bot").state.offset, 1002);

  const other = on.server.bot("777:other", { firstUpdateId: 5 });
  other.write({ chat: { id: 9, type: "private" }, text: "c" });
  on.cluster.secret("777:other");
  await on.until("the other bot's", () => other.updates.length === 0);
  assert.equal(
    other.sent.map(({ text }) => text),
    ["re: c"],
  );
  assert.is(on.cluster.kept("bot").state.offset, 6);
  assert.is(on.bot.sent.length, 2);
});

test("two replicas and a second trigger of the same bot: one poller, and the later trigger says so and waits", async () => {
  const adapter = createMessenger({ random: () => 1, fetch: on.server.fetch });
  const later = on.start({ name: "later", createdAt: "2026-02-01T00:00:00Z", adapter });
  await on.until("it to poll", () => on.server.polls.length > 0);
  const first = on.start({ adapter });
  const replica = on.start();
  for (let index = 0; index < 20; index++) on.write(index % 3, `${index}`);
  await on.untilAnswered();
  await pass(on.clock, 120_000);
  assert.is(on.bot.sent.length, 20);
  assert.is(on.server.conflicts, 0);
  assert.match(later.reports.at(-1) ?? "", /^trigger "bot" already serves this bot/);
  assert.equal(
    [...first.reports, ...replica.reports].filter((trouble) => trouble !== undefined),
    [],
  );
  assert.equal(on.cluster.leaseNames().length, 1);
  assert.not.match(on.cluster.leaseNames().join(), /AAH/);

  await first.stop();
  await replica.stop();
  on.write(1, "more");
  await on.until("the later trigger's answer", () => on.bot.sent.length === 21);
  await on.untilAnswered();
  assert.is(later.reports.at(-1), undefined);
  await later.stop();
});

test("a bot counts as polled while its messenger answers", async () => {
  const polledBots = createPolledBots(on.clock);
  const { stop } = on.start({ adapter: createMessenger({ random: () => 1, fetch: on.server.fetch, polledBots }) });
  await on.until("the first answer", () => polledBots.count() === 1);
  await pass(on.clock, 120_000);
  assert.is(polledBots.count(), 1);
  on.server.fault({ method: "getUpdates", fault: { kind: "drop", done: false }, times: 100 });
  await on.until("the answer to be overdue", () => polledBots.count() === 0);
  on.server.clearFaults();
  await on.until("the next answer", () => polledBots.count() === 1);
  await stop();
  assert.is(polledBots.count(), 0);
});

test("nothing is sent while the state cannot be written, and a stop does not wait for that", async () => {
  const replica = on.start();
  await on.until("a poll", () => on.server.polls.length > 0);
  replica.partition(true);
  on.write(1, "a");
  await pass(on.clock, 5_000);
  assert.equal(on.said(1), []);
  const asked = on.clock.now();
  const stopped = replica.stop();
  await on.until("the stop", () => replica.gone());
  await stopped;
  assert.ok(on.clock.now() - asked <= 6_000, `${on.clock.now() - asked}`);
  on.start();
  await on.untilAnswered();
  assert.equal(on.said(1), ["re: a"]);
});

test("a server that does not wait for updates is asked once a second", async () => {
  on.start({ config: { pollTimeoutSeconds: 0 } });
  await pass(on.clock, 60_000);
  assert.ok(on.server.polls.length <= 65, `${on.server.polls.length}`);
  on.write(1, "a");
  await on.untilAnswered();
});

test("a stop confirms what is answered, so that a trigger with a state of its own does not answer it again", async () => {
  const replica = on.start();
  on.write(1, "a");
  await on.until("the answer", () => on.said(1).length === 1);
  await pass(on.clock, 0);
  await replica.stop();
  assert.is(on.bot.updates.length, 0);
  on.start({ name: "another" });
  await pass(on.clock, 60_000);
  assert.equal(on.said(1), ["re: a"]);
});

test("a trigger that is deleted while a reply is under way leaves it to no successor", async () => {
  const replica = on.start();
  on.server.fault({ method: "sendMessage", fault: { kind: "slow", delayMs: 1_000 } });
  on.write(1, "a");
  await on.until("the message", () => on.said(1).length === 1);
  on.cluster.remove("bot");
  const stopped = replica.stop();
  await on.until("the stop", () => replica.gone());
  await stopped;
  assert.is(on.bot.updates.length, 0);
  on.start({ name: "another" });
  await pass(on.clock, 60_000);
  assert.equal(on.said(1), ["re: a"]);
});

test("after a week without updates the server numbers anew, lower than before: those are answered", async () => {
  on.start();
  on.write(1, "a");
  await on.untilAnswered();
  on.bot.nextUpdateId = 17;
  const later = { chat: { id: 1, type: "private" as const }, date: 1_767_225_600 + 8 * 86_400 };
  on.bot.write({ ...later, text: "b" });
  on.bot.write({ ...later, text: "c" });
  await on.untilAnswered();
  assert.equal(on.said(1), ["re: a", "re: b", "re: c"]);
  assert.is(on.cluster.kept("bot").state.offset, 19);
});

test("an update that the server delivers again below the offset is not answered again, nor polled for without a pause", async () => {
  on.start();
  const id = on.write(1, "a");
  await on.untilAnswered();
  on.bot.updates.push({
    update_id: id,
    message: { message_id: 1, date: 1_767_225_600, chat: { id: 1, type: "private" }, text: "a" },
  });
  const polls = on.server.polls.length;
  await pass(on.clock, 10_000);
  assert.equal(on.said(1), ["re: a"]);
  assert.ok(on.server.polls.length - polls < 20);
});

test.run();
