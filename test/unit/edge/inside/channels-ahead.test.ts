// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Channel } from "../../../../edge/inside/channel.ts";
import type { PodId } from "../../../../edge/inside/channels.ts";
import { createChannelsAhead } from "../../../../edge/inside/channels-ahead.ts";
import { manualClock, turns } from "../../manual-clock.ts";
import { silentLog } from "../../silent-log.ts";

const test = suite("createChannelsAhead");

function create({ fails = false } = {}) {
  const clock = manualClock();
  const asked: string[] = [];
  /** The warm pods, by workload. */
  const warm = new Map<string, PodId>([["a", { name: "a-1", uid: "1" }]]);
  const ahead = createChannelsAhead({
    channels: {
      async channelTo({ name }) {
        asked.push(name);
        if (fails) throw new Error("no tools");
        return {} as Channel;
      },
    },
    nextPod: (workload) => warm.get(workload),
    log: silentLog,
    clock,
  });
  return { ahead, asked, warm, clock };
}

test("the channel to the next pod is opened with a claim, and to the one after it soon after the first call", async () => {
  const { ahead, asked, warm, clock } = create();
  ahead.begin("a");
  assert.equal(asked, ["a-1"]);
  warm.set("a", { name: "a-2", uid: "2" });
  const channel = {} as Channel;
  ahead.used("a", channel);
  assert.equal(asked, ["a-1"]);
  await clock.pass(250);
  assert.equal(asked, ["a-1", "a-2"]);
  ahead.used("a", channel);
  await clock.pass(250);
  assert.equal(asked, ["a-1", "a-2"]);
});

test("it is kept open while claims are expected, and no longer", async () => {
  const { ahead, asked, clock } = create();
  ahead.begin("a");
  for (let minute = 0; minute < 20; minute += 1) {
    // A channel without calls closes after a minute.
    const before = asked.length;
    await clock.pass(60_000);
    assert.is(asked.length > before, minute < 10, `minute ${minute}`);
  }
});

test("a workload without a warm pod, and one whose pods cannot be called, is left alone", async () => {
  const { ahead, asked, clock } = create({ fails: true });
  ahead.begin("other");
  ahead.begin("a");
  await turns();
  await clock.pass(600_000);
  assert.equal(asked, ["a-1"]);
});

test("of more than 32 workloads the one that was expected first is left", async () => {
  const { ahead, asked, warm, clock } = create();
  for (let n = 1; n <= 33; n += 1) warm.set(`w${n}`, { name: `w${n}`, uid: `${n}` });
  for (let n = 1; n <= 33; n += 1) ahead.begin(`w${n}`);
  asked.length = 0;
  await clock.pass(45_000);
  assert.equal(
    asked,
    Array.from({ length: 32 }, (_, n) => `w${n + 2}`),
  );
});

test.run();
