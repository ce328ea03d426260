import { test } from "uvu";
import * as assert from "uvu/assert";
import { openLoop, poissonArrivals, seededRandom } from "../../../scripts/bench/load/open-loop.ts";

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

test("openLoop: ends when aborted, and leaves out the rest once it is over, after what was sent is answered", async () => {
  const stop = new AbortController();
  const sent: string[] = [];
  const stopped = openLoop([0, 1, 2], {
    async send(index) {
      sent.push(`aborted ${index}`);
      stop.abort(new Error("enough"));
    },
    signal: stop.signal,
  });
  assert.match(String(await stopped.catch((error: Error) => error.message)), "enough");
  let answered = 0;
  await openLoop([0, 1, 2, 3], {
    async send(index) {
      sent.push(`over ${index}`);
      await new Promise((resolve) => setImmediate(resolve));
      answered += 1;
    },
    isOver: () => sent.length === 3,
    signal,
  });
  assert.equal([sent, answered], [["aborted 0", "over 0", "over 1"], 2]);
});

const plan = (seed: number, perSecond = 45, seconds = 60) =>
  poissonArrivals({ perSecond, seconds, random: seededRandom(seed) });

test("poissonArrivals: the same seed gives the same ascending plan, another seed another one; a rate is above 0", () => {
  assert.equal(plan(1), plan(1));
  assert.not.equal(plan(1), plan(2));
  assert.ok(plan(1).every((at, index, all) => at > (all[index - 1] ?? 0) && at < 60_000));
  const numbers = [0, 0, 0.9999999];
  const arrivals = poissonArrivals({ perSecond: 1, seconds: 1, random: () => numbers.shift() ?? 0.5 });
  assert.equal(arrivals, [0, 0], "a random number of 0 is a gap of 0, and no gap is infinite");
  assert.throws(() => plan(1, 0), /rate of 0/);
});

test("poissonArrivals: the gaps are as many, as long and as uneven as an exponential distribution has them", () => {
  const arrivals = plan(7, 100, 1000);
  const gaps = arrivals.map((at, index) => at - (arrivals[index - 1] ?? 0));
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
  const deviation = Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length);
  // 100 000 arrivals: the count is off by 316 once in three times, so 2 % is more than six times that.
  assert.ok(Math.abs(arrivals.length / 100_000 - 1) < 0.02, String(arrivals.length));
  assert.ok(Math.abs(mean / 10 - 1) < 0.02, String(mean));
  assert.ok(Math.abs(deviation / mean - 1) < 0.02, String(deviation));
  const longerThanMean = gaps.filter((gap) => gap > 10).length / gaps.length;
  assert.ok(Math.abs(longerThanMean - 1 / Math.E) < 0.01, String(longerThanMean));
});

test.run();
