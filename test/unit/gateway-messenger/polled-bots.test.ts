import { test } from "uvu";
import * as assert from "uvu/assert";
import { createPolledBots } from "../../../edge/gateway/messenger/polled-bots.ts";

test("a bot counts from an answer until the next one is overdue, or the session has ended", () => {
  let now = 0;
  const bots = createPolledBots({ now: () => now });
  assert.is(bots.count(), 0);
  bots.answered("quick", 30);
  bots.answered("patient", 600);
  assert.is(bots.count(), 2);
  now = 89_000;
  assert.is(bots.count(), 2);
  now = 90_000;
  assert.is(bots.count(), 1);
  bots.answered("quick", 30);
  assert.is(bots.count(), 2);
  bots.ended("patient");
  assert.is(bots.count(), 1);
});

test.run();
