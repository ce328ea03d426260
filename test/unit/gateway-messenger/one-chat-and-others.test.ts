// @runtimes bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { sleep } from "../../../crds/waits.ts";
import { TOO_MANY, UNANSWERED } from "../../../edge/gateway/messenger/reply-text.ts";
import { answered } from "./answered.ts";
import type { Run } from "./replica.ts";
import { pass } from "./simulate.ts";
import { type TestEnvironment, testEnvironment } from "./test-environment.ts";

const test = suite("one chat and the others");
let on: TestEnvironment;
test.before.each(() => {
  on = testEnvironment();
});
test.after.each(() => on.end());

/** Takes so long for what begins with `slow`, and answers the rest at once. */
const slow =
  (delayMs: number): Run =>
  (event, { signal }) =>
    sleep(event.text?.startsWith("slow") ? delayMs : 0, { clock: on.clock, signal }).then(() =>
      answered(`re: ${event.text?.slice(0, 10)}`),
    );

test("a message that takes minutes does not hold up others, and is answered once whatever happens meanwhile", async () => {
  for (const end of ["itself", "kill", "stop"] as const) {
    on.end();
    on = testEnvironment();
    on.write(1, "slow");
    for (let index = 0; index < 499; index++) on.write(2 + (index % 3), `${index}`);
    const replica = on.start({ run: slow(600_000) });
    const said = () => [2, 3, 4].flatMap((chat) => on.said(chat));
    await on.until("the others' answers", () => said().length === 499);
    assert.equal(on.said(1), []);
    for (const chat of [2, 3, 4]) {
      const texts = Array.from({ length: 499 }, (_, index) => `re: ${index}`);
      assert.equal(
        on.said(chat),
        texts.filter((_, index) => 2 + (index % 3) === chat),
      );
    }
    await on.until("the server to know", () => on.bot.updates.length === 0);
    if (end === "kill") replica.kill();
    if (end === "stop") {
      const stopped = replica.stop();
      await on.until("the stop", () => replica.gone());
      await stopped;
    }
    if (end !== "itself") on.start();
    await on.until("the slow one's answer", () => on.said(1).length === 1);
    await pass(on.clock, 60_000);
    assert.equal(on.said(1), ["re: slow"], end);
    assert.equal(on.cluster.kept("bot").state.carried, []);
    assert.is(said().length, 499);
  }
});

test("a chat of hundreds of slow messages is told that they are too many, and the others are served", async () => {
  for (let index = 0; index < 400; index++) on.write(1, `slow${index}`);
  on.start({ run: slow(20_000) });
  await pass(on.clock, 1_000);
  for (const chat of [2, 3, 4]) on.write(chat, "quick");
  await on.until("the others' answers", () => [2, 3, 4].every((chat) => on.said(chat).length === 1));
  assert.ok(on.said(1).filter((text) => text !== TOO_MANY).length <= 1, "they did not wait for the slow ones");
  const size = Buffer.byteLength(JSON.stringify(on.cluster.kept("bot").state));
  assert.ok(size < 60 * 1024, `${size}`);
  await on.untilAnswered();
  await on.until("all", () => (on.cluster.kept("bot").state.carried as []).length === 0);
  const notices = on.bot.sent.filter(({ text }) => text === TOO_MANY);
  const answers = on.said(1).filter((text) => text !== TOO_MANY);
  assert.ok(notices.length >= 1 && notices.length <= 5, `${notices.length} notices`);
  assert.ok(notices.every(({ replyTo }) => replyTo !== undefined));
  assert.ok(answers.length >= 20 && answers.length <= 150, `${answers.length} answers`);
  const numbers = answers.map((text) => Number(text.slice("re: slow".length)));
  assert.equal(
    numbers,
    [...numbers].sort((a, b) => a - b),
    "in the order of the chat",
  );
  assert.is(new Set(numbers).size, numbers.length);
});

test("a notice that was lost is sent again, not taken for a reply that came meanwhile", async () => {
  for (let index = 0; index < 400; index++) on.write(1, `slow${index}`);
  const lost = { method: "sendMessage", when: ({ text }: { text?: unknown }) => text === TOO_MANY };
  on.server.fault({ ...lost, times: 6, fault: { kind: "drop", done: false } });
  const replica = on.start({ run: slow(20_000) });
  await on.untilAnswered();
  const refusals = replica.logs.filter((line) => line.includes("too many messages of a chat"));
  assert.ok(refusals.length > 0);
  assert.is(on.said(1).filter((text) => text === TOO_MANY).length, refusals.length);
});

test("whatever dies when, a message that is carried is answered once, and so are the others", async () => {
  const runs = Number(process.env.TENANCY_MODEL_SEQUENCES ?? 40);
  const wanted = Array.from({ length: 130 }, (_, index) => `re: ${index}`);
  let steps = 0;
  let carried = 0;
  for (let index = 0; index <= runs; index++) {
    on.end();
    on = testEnvironment();
    on.write(1, "slow");
    for (const text of wanted) on.write(2, text.slice("re: ".length));
    const kind = (["before", "after", "freeze", "stop"] as const)[index % 4] ?? "after";
    const mishap = { step: Math.ceil((index * steps) / runs), kind };
    const first = on.start({ run: slow(8_000), ...(index > 0 && { mishap }) });
    await on.until("the first to serve", () => on.server.polls.length > 0 || first.gone());
    if (index > 0) on.start({ run: slow(8_000) });
    await on.untilAnswered();
    await on.until("the slow one's answer", () => on.said(1).length > 0);
    await pass(on.clock, 120_000);
    assert.equal(on.said(1), ["re: slow"], JSON.stringify(mishap));
    assert.equal(on.said(2), wanted, JSON.stringify(mishap));
    if (index === 0) steps = first.steps();
    if (on.cluster.written.some((state) => !state.includes(`"carried":[]`))) carried++;
  }
  assert.ok(carried > runs / 2, `${carried} of ${runs} with a message that was carried`);
});

test("what there is no room to keep gets an answer all the same when its process dies", async () => {
  const large = `slow ${"ä".repeat(4000)}`;
  for (const chat of [1, 2, 3]) on.write(chat, large);
  for (let index = 0; index < 150; index++) on.write(4, `${index}`);
  const replica = on.start({ run: slow(600_000) });
  await on.until("the others' answers", () => on.said(4).length === 150);
  await on.until("the server to know", () => on.bot.updates.length === 0);
  const size = Buffer.byteLength(JSON.stringify(on.cluster.kept("bot").state));
  assert.ok(size < 20 * 1024, `${size}`);
  replica.kill();
  on.start();
  await on.until("the answers", () => [1, 2, 3].every((chat) => on.said(chat).length === 1));
  const told = [1, 2, 3].flatMap((chat) => on.said(chat));
  assert.equal(told, [`re: ${large}`, UNANSWERED, UNANSWERED]);
});

test("one person in many groups leaves places for others", async () => {
  let most = 0;
  let now = 0;
  const from = { id: 7, is_bot: false, first_name: "A" };
  for (let index = 1; index <= 20; index++) on.bot.write({ chat: { id: -index, type: "group" }, text: "slow", from });
  on.write(1, "quick");
  on.start({
    tenant: { from: "userId" },
    async run(event, how) {
      if (event.text !== "slow") return answered("quick");
      most = Math.max(most, ++now);
      try {
        return await slow(60_000)(event, how);
      } finally {
        now--;
      }
    },
  });
  await on.until("the other's answer", () => on.said(1).length === 1);
  assert.is(on.bot.sent.length, 1, "it did not wait for one of the slow ones");
  await on.untilAnswered();
  assert.is(on.bot.sent.length, 21);
  assert.is(most, 4);
});

test.run();
