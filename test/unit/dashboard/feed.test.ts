// @runtimes node bun deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createFeed, type FeedState } from "../../../edge/dashboard/api/feed.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("dashboard/feed");

/** A feed whose server, clock and frames are the test's. */
function testFeed() {
  const clock = manualClock();
  const sockets: { since: string | undefined; open(): void; text(message: object): void; drop(): void }[] = [];
  const frames: (() => void)[] = [];
  const states: FeedState[] = [];
  const failures: string[] = [];
  const feed = createFeed({
    open(since, listener) {
      sockets.push({
        since,
        open: listener.onOpen,
        text: (message) => listener.onText(JSON.stringify({ time: "2026-01-01T00:00:00Z", ...message })),
        drop: listener.onClose,
      });
      return { close: listener.onClose };
    },
    nextFrame: (act) => void frames.push(act),
    clock,
    onState: (state) => void states.push(state),
    onFailure: (error) => void failures.push((error as Error).message),
  });
  const log: string[] = [];
  const lists: { answer(text: string): void; fail(message: string): void; signal: AbortSignal }[] = [];
  function add(kind = "claim"): void {
    feed.add<string>({
      takes: (type) => type.startsWith(`${kind}.`),
      list: (signal) =>
        new Promise((resolve, reject) => {
          lists.push({ answer: resolve, fail: (message) => reject(new Error(message)), signal });
        }),
      reset: (list) => void log.push(`reset ${list}`),
      apply: (batch) => void log.push(`apply ${batch.map(({ id }) => id).join(" ")}`),
      onState: (state) => void log.push(state),
    });
  }
  return {
    ...{ feed, clock, sockets, states, failures, log, lists, add },
    frame() {
      for (const act of frames.splice(0)) act();
    },
    socket: () => sockets.at(-1) as (typeof sockets)[number],
    list: () => lists.at(-1) as (typeof lists)[number],
    taken: () => log.splice(0),
    // What a promise's handler does comes after this.
    settled: () => new Promise((resolve) => setTimeout(resolve, 0)),
  };
}

test("a list is read once the socket is open, and what came meanwhile is applied to it", async () => {
  const { add, socket, list, lists, frame, taken, settled, states } = testFeed();
  add();
  assert.is(lists.length, 0);
  socket().open();
  socket().text({ id: "x-1", type: "claim.active" });
  frame();
  socket().text({ id: "x-2", type: "instance.added" });
  socket().text({ id: "x-3", type: "claim.deleted" });
  frame();
  assert.equal(taken(), ["loading"]);
  list().answer("all");
  await settled();
  assert.equal(taken(), ["reset all", "apply x-1 x-3", "live"]);
  assert.equal(states, ["live"]);
});

test("messages of one frame come as one batch", async () => {
  const { add, socket, list, frame, taken, settled } = testFeed();
  add();
  socket().open();
  list().answer("all");
  await settled();
  taken();
  socket().text({ id: "x-1", type: "claim.active" });
  socket().text({ id: "x-2", type: "claim.active" });
  assert.equal(taken(), []);
  frame();
  assert.equal(taken(), ["apply x-1 x-2"]);
});

test("after a break the socket resumes behind the last message, and no list is read anew", async () => {
  const { add, socket, sockets, list, lists, frame, taken, settled, states, clock } = testFeed();
  add();
  socket().open();
  list().answer("all");
  await settled();
  socket().text({ id: "x-7", type: "claim.active" });
  frame();
  taken();
  socket().drop();
  assert.equal([taken(), states.at(-1)], [["stale"], "stale"]);
  await clock.pass(250);
  assert.is(socket().since, "x-7");
  socket().open();
  assert.equal(taken(), ["live"]);
  assert.equal([lists.length, sockets.length], [1, 2]);
});

test("a break before any message, or while a list is read, has lists read anew", async () => {
  const { add, socket, list, lists, taken, settled, clock } = testFeed();
  add();
  socket().open();
  const first = list();
  socket().drop();
  assert.is(first.signal.aborted, true);
  first.answer("too late");
  await settled();
  await clock.pass(250);
  assert.is(socket().since, undefined);
  socket().open();
  assert.is(lists.length, 2);
  list().answer("all");
  await settled();
  assert.equal(taken(), ["loading", "reset all", "live"]);
});

test("resync has all lists read anew, and what came before it is not applied", async () => {
  const { add, socket, lists, frame, taken, settled } = testFeed();
  add("claim");
  add("instance");
  socket().open();
  for (const { answer } of lists) answer("old");
  await settled();
  taken();
  socket().text({ id: "x-1", type: "claim.active" });
  socket().text({ id: "x-9", type: "resync" });
  socket().text({ id: "x-10", type: "claim.active" });
  frame();
  assert.is(lists.length, 4);
  for (const { answer } of lists.slice(2)) answer("new");
  await settled();
  assert.equal(taken().sort(), ["apply x-10", "live", "live", "reset new", "reset new"]);
});

test("a list that cannot be read is read again, later each time, and at once when asked to", async () => {
  const { feed, add, socket, list, lists, taken, settled, failures, clock } = testFeed();
  add();
  socket().open();
  list().fail("first");
  await settled();
  await clock.pass(249);
  assert.is(lists.length, 1);
  await clock.pass(1);
  assert.is(lists.length, 2);
  list().fail("second");
  await settled();
  assert.equal(failures, ["first", "second"]);
  feed.retry();
  assert.is(lists.length, 3);
  list().answer("all");
  await settled();
  assert.equal(taken(), ["loading", "reset all", "live"]);
});

test("a server that is away is tried less and less often, and a part that comes meanwhile waits for it", async () => {
  const { add, socket, sockets, lists, clock, states } = testFeed();
  add("claim");
  for (const pauseMs of [250, 500, 1000]) {
    socket().drop();
    const before = sockets.length;
    await clock.pass(pauseMs - 1);
    assert.is(sockets.length, before);
    await clock.pass(1);
    assert.is(sockets.length, before + 1);
  }
  assert.equal(states, ["loading", "loading", "loading"]);
  add("instance");
  assert.is(lists.length, 0);
  socket().open();
  assert.is(lists.length, 2);
});

test("a closed feed does nothing more", async () => {
  const { feed, add, socket, sockets, list, taken, settled, clock } = testFeed();
  add();
  socket().open();
  feed.close();
  assert.is(list().signal.aborted, true);
  list().answer("late");
  await settled();
  await clock.pass(60_000);
  assert.equal([taken(), sockets.length], [["loading"], 1]);
});

test.run();
