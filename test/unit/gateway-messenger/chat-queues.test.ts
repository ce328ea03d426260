// @runtimes bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createChatQueues } from "../../../edge/gateway/messenger/chat-queues.ts";

const test = suite("createChatQueues");

function testEnvironment(limit: number, perTenant: number) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  const queues = createChatQueues<string>({
    limit,
    perTenant,
    work: (item) =>
      new Promise((resolve) => {
        begun.push(item);
        ends.set(item, resolve);
      }),
  });
  return {
    queues,
    begun,
    async end(item: string) {
      ends.get(item)?.();
      await new Promise((resolve) => setImmediate(resolve));
    },
  };
}

test("a tenant's chats have a share of the places, and its next chat follows when one of them ends", async () => {
  const { queues, begun, end } = testEnvironment(3, 2);
  for (const chatId of [1, 2, 3, 4]) queues.add(`a${chatId}`, { chatId, tenant: "a" });
  queues.add("b5", { chatId: 5, tenant: "b" });
  queues.add("c6", { chatId: 6, tenant: undefined });
  assert.equal(begun, ["a1", "a2", "b5"]);
  await end("b5");
  await end("a2");
  assert.equal(begun.slice(3), ["c6", "a3"]);
});

test("the newest of the chat or tenant with the most is given back, and the rest goes on in order", async () => {
  const { queues, begun, end } = testEnvironment(1, 1);
  queues.add("first", { chatId: 9 });
  for (let index = 0; index < 4; index++) queues.add(`chat${index}`, { chatId: 1, tenant: `t${index}` });
  for (let index = 0; index < 6; index++) queues.add(`tenant${index}`, { chatId: 10 + (index % 5), tenant: "many" });
  assert.equal(queues.shed(2), ["tenant2", "tenant3", "tenant4", "tenant5"]);
  assert.equal(queues.shed(2), ["chat2", "chat3"]);
  assert.equal(queues.shed(2), []);
  assert.is(queues.size, 4);
  for (const item of ["first", "chat0", "tenant0", "tenant1", "chat1"]) await end(item);
  assert.equal(begun, ["first", "chat0", "tenant0", "tenant1", "chat1"]);
  assert.is(queues.size, 0);
  queues.add("again", { chatId: 12, tenant: "many" });
  assert.is(begun.at(-1), "again");
});

test.run();
