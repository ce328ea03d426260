// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { FakeMessenger } from "../../messenger/fake-messenger.ts";

const test = suite("the fake of the messenger's server");
const TOKEN = "1:a";
const chat = { id: 5, type: "private" as const };
let server: FakeMessenger;
let url = "";
test.before.each(async () => {
  server = new FakeMessenger();
  url = await server.start();
});
test.after.each(() => server.stop());

interface Answer {
  ok: boolean;
  result?: unknown;
  error_code?: number;
  description?: string;
}

async function call(method: string, parameters: object = {}, token = TOKEN): Promise<Answer> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/bot${token}/${method}`, {
    method: "POST",
    headers,
    body: JSON.stringify(parameters),
  });
  return (await response.json()) as Answer;
}

function idsOf({ result }: Answer): number[] {
  return (result as { update_id: number }[]).map(({ update_id }) => update_id);
}

test("an offset confirms what is below it, for good", async () => {
  const bot = server.bot(TOKEN, { firstUpdateId: 10 });
  for (const text of ["a", "b", "c"]) bot.write({ chat, text });
  assert.equal(idsOf(await call("getUpdates")), [10, 11, 12]);
  assert.equal(idsOf(await call("getUpdates", { limit: 1 })), [10]);
  assert.equal(idsOf(await call("getUpdates", { offset: 11 })), [11, 12]);
  assert.equal(idsOf(await call("getUpdates")), [11, 12]);
  assert.equal(idsOf(await call("getUpdates", { offset: 13 })), []);
});

test("a long poll is answered as soon as a message comes", async () => {
  const bot = server.bot(TOKEN);
  const poll = call("getUpdates", { timeout: 50 });
  const writing = setInterval(() => bot.updates.length === 0 && bot.write({ chat, text: "a" }), 1);
  assert.is(idsOf(await poll).length, 1);
  clearInterval(writing);
});

test("of two polls the earlier one is ended, and no poll goes beside a webhook", async () => {
  const bot = server.bot(TOKEN);
  const earlier = call("getUpdates", { timeout: 50 });
  while (server.count("getUpdates") < 1) await new Promise(setImmediate);
  await call("getUpdates");
  assert.is((await earlier).error_code, 409);
  assert.is(server.conflicts, 1);
  bot.webhook = "https://elsewhere.test/";
  assert.match((await call("getUpdates")).description ?? "", /webhook is active/);
  assert.is((await call("deleteWebhook")).result, true);
  assert.equal(idsOf(await call("getUpdates")), []);
});

test("tokens, chats and texts are checked as the messenger does", async () => {
  const bot = server.bot(TOKEN);
  bot.know(chat);
  assert.is((await call("getUpdates", {}, "2:b")).error_code, 401);
  assert.is((await call("getUpdates", {}, "nonsense")).error_code, 404);
  assert.match((await call("sendMessage", { chat_id: 6, text: "a" })).description ?? "", /chat not found/);
  assert.match((await call("sendMessage", { chat_id: 5, text: " " })).description ?? "", /text is empty/);
  assert.match((await call("sendMessage", { chat_id: 5, text: "a".repeat(4097) })).description ?? "", /too long/);
  assert.is((await call("sendMessage", { chat_id: 5, text: "a" })).ok, true);
  const edit = async (message_id: number) =>
    (await call("editMessageReplyMarkup", { chat_id: 5, message_id })).description ?? "";
  bot.write({ chat, text: "b" });
  assert.match(await edit(1), /message is not modified/);
  assert.match(await edit(2), /message can't be edited/);
  assert.match(await edit(3), /message to edit not found/);
});

test.run();
