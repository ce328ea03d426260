import { test } from "uvu";
import * as assert from "uvu/assert";
import { openLoop } from "../../../scripts/bench/load/open-loop.ts";

const signal = new AbortController().signal;

test("openLoop: sends on while earlier sends are not answered, and waits for all of them", async () => {
  const answers: (() => void)[] = [];
  let ended = false;
  const loop = openLoop([0, 1, 2], {
    send: () =>
      new Promise<void>((resolve) => {
        answers.push(resolve);
        if (answers.length === 3) for (const answer of answers) answer();
      }),
    signal,
  }).then(() => {
    ended = true;
  });
  await loop;
  assert.is(answers.length, 3);
  assert.ok(ended);
});

test("openLoop: tells each send its intended moment, also where it comes late", async () => {
  const intended: number[] = [];
  const late: number[] = [];
  await openLoop([0, 3, 3, 5], {
    async send(_, intendedAt) {
      intended.push(intendedAt);
      late.push(performance.now() - intendedAt);
    },
    signal,
  });
  assert.equal(
    intended.map((at) => Math.round(at - (intended[0] ?? 0))),
    [0, 3, 3, 5],
  );
  assert.ok(
    late.every((ms) => ms >= 0),
    "none is sent before its moment",
  );
});

test("openLoop: stops sending when aborted", async () => {
  const stop = new AbortController();
  let sent = 0;
  const loop = openLoop([0, 1, 2], {
    async send() {
      sent += 1;
      stop.abort(new Error("enough"));
    },
    signal: stop.signal,
  });
  await loop.then(
    () => assert.unreachable(),
    (error: Error) => assert.is(error.message, "enough"),
  );
  assert.is(sent, 1);
});

test("openLoop: leaves out the rest once it is over, and waits for what was sent", async () => {
  let sent = 0;
  let answered = 0;
  await openLoop([0, 1, 2, 3], {
    async send() {
      sent += 1;
      await new Promise((resolve) => setImmediate(resolve));
      answered += 1;
    },
    isOver: () => sent === 2,
    signal,
  });
  assert.equal([sent, answered], [2, 2]);
});

test.run();
