// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createFeed, type FeedState } from "../../../edge/dashboard/api/feed.ts";
import { manualClock, turns } from "../manual-clock.ts";

const test = suite("dashboard/feed");

/** A feed whose server, clock and frames are the test's. */
function testFeed() {
  const clock = manualClock();
  const sockets: TestSocket[] = [];
  const frames: (() => void)[] = [];
  const states: FeedState[] = [];
  const failures: string[] = [];
  const page = { isVisible: true };
  const feed = createFeed({
    open(since, listener) {
      const sent: string[] = [];
      const text = (message: object) => listener.onText(JSON.stringify({ time: "2026-01-01T00:00:00Z", ...message }));
      sockets.push({
        ...{ since, sent, text, open: listener.onOpen, drop: listener.onClose },
        pong: (id, versions = {}) => text({ id, type: "pong", fresh: true, versions }),
      });
      return { send: (word) => void sent.push(word), close: listener.onClose };
    },
    nextFrame: (act) => void frames.push(act),
    isVisible: () => page.isVisible,
    clock,
    onState: (state) => void states.push(state),
    onPong: () => undefined,
    onFailure: (error) => void failures.push((error as Error).message),
  });
  const log: string[] = [];
  const lists: { answer(list: string, version?: string): void; fail(message: string): void; signal: AbortSignal }[] =
    [];
  function add(kind = "claim"): void {
    feed.add<string>({
      kind: `${kind}s`,
      takes: (type) => type.startsWith(`${kind}.`),
      list: (signal) =>
        new Promise((resolve, reject) => {
          lists.push({
            answer: (list, version) => resolve({ list, version }),
            fail: (message) => reject(new Error(message)),
            signal,
          });
        }),
      reset: (list) => void log.push(`reset ${list}`),
      apply: (batch) => void log.push(`apply ${batch.map(({ id }) => id).join(" ")}`),
      onState: (state) => void log.push(state),
    });
  }
  const socket = () => sockets.at(-1) as TestSocket;
  return {
    ...{ feed, page, clock, sockets, states, failures, log, lists, add, socket },
    frame() {
      for (const act of frames.splice(0)) act();
    },
    connect(id = "x-0", versions: Record<string, string> = {}) {
      socket().open();
      socket().pong(id, versions);
    },
    list: () => lists.at(-1) as (typeof lists)[number],
    taken: () => log.splice(0),
  };
}

interface TestSocket {
  since: string | undefined;
  /** What the page sent. */
  sent: string[];
  open(): void;
  text(message: object): void;
  pong(id: string, versions?: Record<string, string>): void;
  drop(): void;
}

test("a list is read once the server has said how far the socket is; what came meanwhile is applied to it", async () => {
  const { add, socket, list, lists, frame, taken, states } = testFeed();
  add();
  socket().open();
  assert.equal([lists.length, socket().sent], [0, ["ping"]]);
  socket().pong("x-0");
  socket().text({ id: "x-1", type: "claim.active" });
  frame();
  socket().text({ id: "x-2", type: "instance.added" });
  socket().text({ id: "x-3", type: "claim.deleted" });
  frame();
  assert.equal(taken(), ["loading"]);
  list().answer("all");
  await turns();
  assert.equal(taken(), ["reset all", "apply x-1 x-3", "live"]);
  assert.equal(states, ["live"]);
});

test("a list of a replica that is behind is not taken: one that was deleted there would stay for ever", async () => {
  const { add, socket, list, lists, frame, taken, clock, connect } = testFeed();
  add();
  connect("x-0", { claims: "1003" });
  socket().text({ id: "x-1", type: "claim.active" });
  frame();
  for (const [version, pauseMs] of [
    ["999", 100],
    ["1002", 200],
  ] as const) {
    list().answer("old", version);
    const before = lists.length;
    await clock.pass(pauseMs - 1);
    assert.is(lists.length, before);
    await clock.pass(1);
    assert.is(lists.length, before + 1);
  }
  assert.equal(taken(), ["loading"]);
  list().answer("new", "1003");
  await turns();
  assert.equal(taken(), ["reset new", "apply x-1", "live"]);
});

test("a part that comes later needs a list that is as new as the socket is by then", async () => {
  const { add, socket, list, lists, taken, connect } = testFeed();
  add("claim");
  connect("x-0", { claims: "5", instances: "5" });
  list().answer("claims", "5");
  await turns();
  add("instance");
  assert.equal([lists.length, socket().sent], [1, ["ping", "ping"]]);
  socket().pong("x-3", { claims: "5", instances: "9" });
  taken();
  list().answer("old", "8");
  await turns();
  assert.equal(taken(), []);
});

test("messages of one frame come as one batch", async () => {
  const { add, socket, list, frame, taken, connect } = testFeed();
  add();
  connect();
  list().answer("all");
  await turns();
  taken();
  socket().text({ id: "x-1", type: "claim.active" });
  socket().text({ id: "x-2", type: "claim.active" });
  assert.equal(taken(), []);
  frame();
  assert.equal(taken(), ["apply x-1 x-2"]);
});

test("after a break the socket resumes behind the last message, and no list is read anew", async () => {
  const { add, socket, sockets, list, lists, frame, taken, states, clock, connect } = testFeed();
  add();
  connect("x-5");
  list().answer("all");
  await turns();
  socket().text({ id: "x-7", type: "claim.active" });
  frame();
  taken();
  socket().drop();
  assert.equal([taken(), states.at(-1)], [["stale"], "stale"]);
  await clock.pass(250);
  assert.is(socket().since, "x-7");
  socket().open();
  socket().text({ id: "x-8", type: "claim.active" });
  socket().pong("x-8");
  frame();
  assert.equal(taken(), ["live", "apply x-8"]);
  assert.equal([lists.length, sockets.length], [1, 2]);
});

test("a break while a list is read has it read anew, from the next connection on", async () => {
  const { add, socket, list, lists, taken, clock, connect } = testFeed();
  add();
  connect("x-5");
  const first = list();
  socket().drop();
  assert.is(first.signal.aborted, true);
  first.answer("too late");
  await clock.pass(250);
  assert.is(socket().since, "x-5");
  connect("x-6");
  assert.is(lists.length, 2);
  list().answer("all");
  await turns();
  assert.equal(taken(), ["loading", "reset all", "live"]);
});

test("resync has all lists read anew, and what came before it is not applied", async () => {
  const { add, socket, lists, frame, taken, clock, connect } = testFeed();
  add("claim");
  add("instance");
  connect();
  for (const { answer } of lists) answer("old");
  await turns();
  socket().text({ id: "x-1", type: "claim.active" });
  socket().drop();
  taken();
  await clock.pass(250);
  socket().open();
  socket().text({ id: "y-9", type: "resync" });
  socket().pong("y-9");
  socket().text({ id: "y-10", type: "claim.active" });
  frame();
  assert.is(lists.length, 4);
  for (const { answer } of lists.slice(2)) answer("new");
  await turns();
  assert.equal(taken().sort(), ["apply y-10", "live", "live", "reset new", "reset new"]);
});

test("a list that cannot be read is read again, later each time, and at once when asked to", async () => {
  const { feed, add, list, lists, taken, failures, clock, connect } = testFeed();
  add();
  connect();
  list().fail("first");
  await clock.pass(249);
  assert.is(lists.length, 1);
  await clock.pass(1);
  assert.is(lists.length, 2);
  list().fail("second");
  await turns();
  assert.equal(failures, ["first", "second"]);
  feed.retry();
  assert.is(lists.length, 3);
  list().answer("all");
  await turns();
  assert.equal(taken(), ["loading", "reset all", "live"]);
});

test("a silent connection is asked after 15 s, and lost when nothing answers for 5 s", async () => {
  const { add, socket, sockets, list, clock, connect, states, taken } = testFeed();
  add();
  connect("x-4");
  list().answer("all");
  await clock.pass(10_000);
  socket().text({ id: "x-5", type: "claim.active" });
  await clock.pass(14_999);
  assert.equal(socket().sent, ["ping"]);
  await clock.pass(1);
  assert.equal(socket().sent, ["ping", "ping"]);
  socket().pong("x-5");
  await clock.pass(15_000);
  assert.equal(socket().sent, ["ping", "ping", "ping"]);
  taken();
  await clock.pass(5000);
  assert.equal([states.at(-1), taken()], ["stale", ["stale"]]);
  await clock.pass(250);
  assert.equal([sockets.length, socket().since], [2, "x-5"]);
});

test("a page that is not seen asks nothing, and asks at once when it is seen again", async () => {
  const { feed, page, add, socket, list, clock, connect } = testFeed();
  add();
  connect();
  list().answer("all");
  page.isVisible = false;
  await clock.pass(600_000);
  assert.equal(socket().sent, ["ping"]);
  page.isVisible = true;
  feed.retry();
  assert.equal(socket().sent, ["ping", "ping"]);
});

test("a server that is away is tried less and less often, and a part that comes meanwhile waits for it", async () => {
  const { add, socket, sockets, lists, clock, states, connect } = testFeed();
  add("claim");
  for (const pauseMs of [250, 500, 1000]) {
    // One that takes connections and answers nothing is away too.
    socket().open();
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
  connect();
  assert.is(lists.length, 2);
});

test("a closed feed does nothing more", async () => {
  const { feed, add, sockets, list, taken, clock, connect } = testFeed();
  add();
  connect();
  feed.close();
  assert.is(list().signal.aborted, true);
  list().answer("late");
  await clock.pass(60_000);
  assert.equal([taken(), sockets.length, clock.pending()], [["loading"], 1, 0]);
});

test.run();
