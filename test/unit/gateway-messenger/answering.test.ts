// @runtimes bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { sleep } from "../../../crds/waits.ts";
import type { Outcome } from "../../../edge/gateway/adapter.ts";
import { errorAnswer, tooMany } from "../../messenger/fault.ts";
import { answered } from "./answered.ts";
import type { Run } from "./replica.ts";
import { pass } from "./simulate.ts";
import { privateChat, type TestEnvironment, testEnvironment } from "./test-environment.ts";

const test = suite("answering messages");
let on: TestEnvironment;
test.before.each(() => {
  on = testEnvironment();
});
test.after.each(() => on.end());

test("an event carries the message, its text, and who wrote it where", async () => {
  const replica = on.start();
  const chat = { id: -100_200, type: "supergroup" as const };
  on.bot.write({ chat, text: "hello", from: { id: 42, is_bot: false, first_name: "A", username: "SomeBody" } });
  on.bot.write({ chat: privateChat(7), text: "hi", from: { id: 7, is_bot: false, first_name: "B" } });
  await on.untilAnswered();
  const [first, second] = replica.events;
  assert.is(first?.id, "123456-1000");
  assert.equal(first?.fields, { chatId: -100_200, userId: 42, usernameOrId: "somebody" });
  assert.is(first?.text, "hello");
  assert.is((first?.data as { text?: string } | undefined)?.text, "hello");
  assert.match(first?.receivedAt ?? "", /^2026-01-01T00:00:0\d\.\d{3}Z$/);
  assert.equal(second?.fields, { chatId: 7, userId: 7, usernameOrId: 7 });
});

test("a photo runs with its data, and its caption as the text", async () => {
  const replica = on.start({ run: async () => answered("seen") });
  on.bot.write({ chat: privateChat(1), with: { photo: [{ file_id: "x" }] } });
  on.bot.write({ chat: privateChat(1), with: { photo: [{ file_id: "x" }], caption: "look" } });
  await on.untilAnswered();
  assert.equal(
    replica.events.map(({ text }) => text),
    [undefined, "look"],
  );
  assert.equal((replica.events[0]?.data as { photo?: unknown } | undefined)?.photo, [{ file_id: "x" }]);
  assert.equal(on.said(1), ["seen", "seen"]);
});

test("updates that cannot be answered are passed over with a log line, and those around them are answered", async () => {
  const malformed: Record<string, unknown>[] = [
    {},
    { message: null },
    { message: {} },
    { message: [] },
    { message: "text" },
    { message: { chat: null, text: "x" } },
    { message: { chat: { id: "1" }, text: "x" } },
    { message: { chat: { id: 1.5 } } },
    { message: { chat: { id: 1 }, from: null, text: "x" } },
    { message: { chat: { id: 1 }, text: { toString: null } } },
    { message: { message_id: "7", chat: { id: 1 } } },
    { inline_query: { id: "1", from: { id: 1 }, query: "" } },
    { a: 1, b: 2 },
    { update_id: null, message: { chat: { id: 1 } } },
    { update_id: -1, message: { chat: { id: 1 } } },
    { update_id: "12", message: { chat: { id: 1 } } },
  ];
  const replica = on.start();
  on.write(1, "before");
  for (const content of malformed) on.bot.push(content);
  on.bot.updates.push(null as never, 17 as never, [] as never);
  on.write(1, "after");
  await on.until("the last answer", () => on.said(1).length === 2);
  await on.until("the offset", () => on.cluster.kept("bot").state.offset === 1000 + malformed.length + 2);
  assert.equal(on.said(1), ["re: before", "re: after"]);
  assert.is(replica.events.length, 2);
  const passed = replica.logs.filter((line) => /passed over an update/.test(line));
  assert.ok(passed.length >= malformed.length, `${passed.length}`);
  const polls = on.server.polls.length;
  await pass(on.clock, 60_000);
  assert.ok(on.server.polls.length - polls < 100, "no loop over what has no id");
});

for (const [what, outcome, said] of [
  ["a denied message", { kind: "denied", message: "not for you" }, ["not for you"]],
  ["a denied message without words", { kind: "denied", message: "" }, []],
  [
    "a refused one",
    { kind: "refused", message: "the field chatId makes no tenant id" },
    ["This chat cannot be served here."],
  ],
  [
    "a failed one",
    { kind: "failed", message: "the container did not answer in time" },
    ["the container did not answer in time"],
  ],
  [
    "a failed one without words",
    { kind: "failed", message: " " },
    ["This message could not be answered. Please try again later."],
  ],
  ["an empty answer", answered(""), []],
  ["a blank answer", answered(" \n\t "), []],
] as const) {
  test(`${what}: the chat reads ${JSON.stringify(said)}, once`, async () => {
    on.start({ run: async () => outcome as Outcome });
    on.write(1, "a");
    await on.untilAnswered();
    assert.equal(on.said(1), [...said]);
  });
}

test("a pipeline that throws costs no message but its own", async () => {
  on.start({
    run: async (event) => {
      if (event.text === "a") throw new TypeError("bug");
      return answered("fine");
    },
  });
  on.write(1, "a");
  on.write(1, "b");
  await on.untilAnswered();
  assert.equal(on.said(1), ["This message could not be answered. Please try again later.", "fine"]);
});

test("typing is shown while a pod starts, every 4 s, and not once it has answered", async () => {
  on.start({
    async run(_, { signal, onColdStart }) {
      onColdStart?.();
      await sleep(10_000, { clock: on.clock, signal });
      return answered("up");
    },
  });
  on.write(5, "wake");
  await on.untilAnswered();
  await pass(on.clock, 30_000);
  assert.equal(on.bot.typing, [5, 5, 5]);
  assert.equal(on.said(5), ["up"]);
});

test("typing that fails does not hurt the reply", async () => {
  on.server.fault({ method: "sendChatAction", times: 9, fault: errorAnswer(500, "Internal Server Error") });
  on.start({
    async run(_, { signal, onColdStart }) {
      onColdStart?.();
      await sleep(10_000, { clock: on.clock, signal });
      return answered("up");
    },
  });
  on.write(5, "wake");
  await on.untilAnswered();
  assert.equal(on.said(5), ["up"]);
});

test("a long reply comes in parts, in order; a stop between them goes on with the next", async () => {
  const long = Array.from({ length: 5 }, (_, index) => `${index}`.repeat(3_000)).join("\n\n");
  let runs = 0;
  const run = async () => {
    runs++;
    return answered(long);
  };
  const replica = on.start({ run });
  on.server.fault({ method: "sendMessage", times: 9, fault: { kind: "slow", delayMs: 500 } });
  on.write(1, "a");
  await on.until("two parts", () => on.said(1).length === 2);
  const stopped = replica.stop();
  await on.until("the stop", () => replica.gone());
  await stopped;
  const [reply] = on.cluster.kept("bot").state.replies as { index: number; sending: boolean }[];
  assert.is(reply?.sending, false, "a clean stop leaves no doubt");
  on.start({ run });
  await on.untilAnswered();
  assert.equal(on.said(1), long.split("\n\n"));
  assert.is(runs, 1, "the container is not asked again");
  assert.is(on.server.count("editMessageReplyMarkup"), 0);
});

for (const [what, refusal] of [
  ["blocked by the person", { code: 403, description: "Forbidden: bot was blocked by the user" }],
  ["a chat that is gone", { code: 400, description: "Bad Request: chat not found" }],
] as const) {
  test(`${what}: counts as answered, and is logged`, async () => {
    const replica = on.start();
    on.bot.refuse(1, refusal);
    on.write(1, "a");
    on.write(2, "b");
    await on.untilAnswered();
    assert.equal(on.said(2), ["re: b"]);
    assert.is(on.server.count("sendMessage"), 2);
    assert.ok(replica.logs.some((line) => line.includes("reply refused")));
    on.bot.refuse(1, undefined);
    on.write(1, "c");
    await on.untilAnswered();
    assert.equal(on.said(1), ["re: c"]);
  });
}

test("a message that the server can never take is given up after ten tries, and the chat goes on", async () => {
  on.start();
  on.server.fault({
    method: "sendMessage",
    times: 99,
    when: ({ text }) => text === "re: a",
    fault: errorAnswer(500, "Internal Server Error"),
  });
  on.write(1, "a");
  on.write(1, "b");
  await on.untilAnswered();
  assert.equal(on.said(1), ["re: b"]);
});

test("in a group the reply points at the message, in a forum it stays in its topic", async () => {
  on.start();
  const group = { id: -5, type: "group" as const };
  on.bot.write({ chat: group, text: "a" });
  on.bot.write({ chat: group, text: "b", with: { message_thread_id: 9, is_topic_message: true } });
  on.bot.write({ chat: group, text: "c", with: { message_thread_id: 9 } });
  on.write(1, "private");
  await on.untilAnswered();
  const inGroup = on.bot.sent.filter(({ chatId }) => chatId === -5);
  assert.equal(
    inGroup.map(({ replyTo, threadId }) => ({ replyTo, threadId })),
    [
      { replyTo: 1, threadId: undefined },
      { replyTo: 2, threadId: 9 },
      { replyTo: 3, threadId: undefined },
    ],
  );
  assert.is(on.bot.sent.find(({ chatId }) => chatId === 1)?.replyTo, undefined);
});

/** Group -9 becomes supergroup -1009. */
function upgradeGroup(): void {
  on.bot.know({ id: -1009, type: "supergroup" });
  on.bot.refuse(-9, {
    code: 400,
    description: "Bad Request: group chat was upgraded to a supergroup chat",
    migrateTo: -1009,
  });
}

test("a group that became a supergroup is answered there", async () => {
  on.start();
  upgradeGroup();
  on.bot.write({ chat: { id: -9, type: "group" }, text: "a" });
  await on.untilAnswered();
  assert.equal(on.said(-1009), ["re: a"]);
});

test("a reply that goes to the supergroup of its group waits its turn there: none is taken for another", async () => {
  upgradeGroup();
  on.server.fault({
    method: "sendMessage",
    when: (parameters) => parameters.text === "re: a" && parameters.chat_id === -1009,
    fault: { kind: "drop", done: false },
  });
  const run: Run = async (event, { signal }) => {
    if (event.text === "b") await sleep(200, { clock: on.clock, signal });
    return answered(`re: ${event.text}`);
  };
  on.start({ run });
  on.bot.write({ chat: { id: -9, type: "group" }, text: "a" });
  on.bot.write({ chat: { id: -1009, type: "supergroup" }, text: "b" });
  await on.untilAnswered();
  assert.equal(on.said(-1009), ["re: a", "re: b"]);
});

test("a reply that waits when its process stops leaves no doubt whether it was sent", async () => {
  const replica = on.start();
  on.server.fault({ method: "sendMessage", fault: tooMany(30) });
  on.write(1, "a");
  await on.until("the reply to be put off", () => on.server.count("sendMessage") === 1);
  const stopped = replica.stop();
  await on.until("the stop", () => replica.gone());
  await stopped;
  const [reply] = on.cluster.kept("bot").state.replies as { sending: boolean }[];
  assert.is(reply?.sending, false);
});

test("a message whose connection broke is not sent again when it had arrived, and is when it had not", async () => {
  on.start();
  on.server.fault({ method: "sendMessage", fault: { kind: "drop", done: true } });
  on.write(1, "a");
  await on.untilAnswered();
  on.server.fault({ method: "sendMessage", fault: { kind: "drop", done: false } });
  on.write(1, "b");
  await on.untilAnswered();
  assert.equal(on.said(1), ["re: a", "re: b"]);
});

for (const [what, fault] of [
  ["does not know how to tell", errorAnswer(404, "Not Found: method not found")],
  ["fails to tell", errorAnswer(501, "not implemented")],
] as const) {
  test(`a server that ${what} whether a message arrived gets it once more`, async () => {
    on.start();
    on.server.fault({ method: "editMessageReplyMarkup", times: 99, fault });
    on.server.fault({ method: "sendMessage", fault: { kind: "drop", done: false } });
    on.write(1, "a");
    await on.untilAnswered();
    assert.equal(on.said(1), ["re: a"]);
  });
}

test("killed while the first replies to a long queue are under way: each is answered once", async () => {
  for (let chat = 1; chat <= 300; chat++) on.write(chat, "a");
  const replica = on.start();
  on.server.fault({ method: "sendMessage", times: 99, fault: { kind: "slow", delayMs: 1_000 } });
  await on.until("the first messages", () => on.bot.sent.length >= 16);
  replica.kill();
  on.server.clearFaults();
  on.start();
  await on.untilAnswered();
  assert.is(on.bot.sent.length, 300);
  assert.is(new Set(on.bot.sent.map(({ chatId }) => chatId)).size, 300);
});

test("replies larger than the state has room for are still answered once, with the container asked again", async () => {
  const long = (text: string) => `${text} `.repeat(4_000).trim();
  const replica = on.start({ run: async (event) => answered(long(`${event.text}`)) });
  for (let chat = 1; chat <= 16; chat++) on.write(chat, "äöü");
  on.server.fault({ method: "sendMessage", times: 99, fault: { kind: "slow", delayMs: 1_000 } });
  await on.until("some parts", () => on.bot.sent.length >= 20);
  replica.kill();
  assert.ok(on.cluster.written.every((state) => Buffer.byteLength(state) < 64 * 1024));
  on.start({ run: async (event) => answered(long(`${event.text}`)) });
  await on.untilAnswered();
  for (let chat = 1; chat <= 16; chat++) assert.is(on.said(chat).join(" "), long("äöü"));
});

test.run();
