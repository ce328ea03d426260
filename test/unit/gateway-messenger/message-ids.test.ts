// @runtimes bun
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createMessageIds } from "../../../edge/gateway/messenger/sent-messages.ts";

const test = suite("createMessageIds");

test("private chats and groups share one count, a supergroup has its own", () => {
  const ids = createMessageIds();
  ids.saw({ chatId: 1, chatType: "private", messageId: 7 });
  ids.saw({ chatId: -2, chatType: "group", messageId: 9 });
  ids.saw({ chatId: 1, chatType: "private", messageId: 8 });
  ids.saw({ chatId: 1, chatType: "private" });
  assert.is(ids.newest({ chatId: 3, chatType: "private" }), 9);
  assert.is(ids.newest({ chatId: -100, chatType: "supergroup" }), 0);
  ids.saw({ chatId: -100, chatType: "supergroup", messageId: 4 });
  assert.is(ids.newest({ chatId: -100, chatType: "supergroup" }), 4);
  assert.is(createMessageIds(ids.save()).newest({ chatId: -100, chatType: "supergroup" }), 4);
});

test("once supergroups had to be forgotten, those not known are unknown, not new", () => {
  const ids = createMessageIds();
  for (let chatId = 0; chatId < 257; chatId++) ids.saw({ chatId, chatType: "supergroup", messageId: 1 });
  assert.is(ids.newest({ chatId: 0, chatType: "supergroup" }), undefined);
  assert.is(ids.newest({ chatId: 256, chatType: "supergroup" }), 1);
  assert.is(ids.save().chats.length, 256);
});

test.run();
