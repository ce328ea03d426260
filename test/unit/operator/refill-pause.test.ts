import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createRefillPause } from "../../../operator/pool/refill-pause.ts";

const test = suite("createRefillPause");

function pauseAt(start = 1_000_000) {
  let now = start;
  const pause = createRefillPause({ now: () => now, after: () => () => undefined });
  return { pause, pass: (ms: number) => (now += ms) };
}

const pool = { name: "p", workload: "w", size: 100, ready: 90 };

test("a pool whose pods nobody is taking is filled at once", () => {
  const { pause, pass } = pauseAt();
  assert.is(pause.waitMs(pool), 0);
  pause.taken("w");
  pass(100);
  assert.is(pause.waitMs(pool), 0);
});

test("while claims keep coming it waits until they have been quiet for a tenth of a second", () => {
  const { pause, pass } = pauseAt();
  for (let count = 0; count < 5; count++) {
    pause.taken("w");
    assert.is(pause.waitMs(pool), 100);
    pass(50);
    assert.is(pause.waitMs(pool), 50);
  }
});

test("a steady stream of claims holds a refill up for one second, and not again until the pool was full", () => {
  const { pause, pass } = pauseAt();
  let waitedMs = 0;
  for (; waitedMs < 5000; waitedMs += 10) {
    pause.taken("w");
    if (pause.waitMs(pool) === 0) break;
    pass(10);
  }
  assert.is(waitedMs, 1000);
  pass(10);
  pause.taken("w");
  assert.is(pause.waitMs(pool), 0);
  pause.filled("p");
  pause.taken("w");
  assert.is(pause.waitMs(pool), 100);
});

test("it waits for files that are on their way into a pod, and no longer than for a stream of claims", () => {
  const { pause, pass } = pauseAt();
  const [ended, alsoEnded] = [pause.restoring("w"), pause.restoring("w")];
  assert.is(pause.waitMs(pool), 100);
  pass(500);
  assert.is(pause.waitMs(pool), 100);
  ended();
  assert.is(pause.waitMs(pool), 100);
  alsoEnded();
  assert.is(pause.waitMs(pool), 0);
  pause.restoring("w");
  pass(450);
  assert.is(pause.waitMs(pool), 50);
  pass(50);
  assert.is(pause.waitMs(pool), 0);
});

test("a pool that is nearly empty does not wait", () => {
  const { pause } = pauseAt();
  pause.taken("w");
  assert.is(pause.waitMs({ ...pool, ready: 19 }), 0);
  assert.ok(pause.waitMs({ ...pool, ready: 20 }) > 0);
  assert.is(pause.waitMs({ ...pool, size: 4, ready: 1 }), 0);
  assert.ok(pause.waitMs({ ...pool, size: 4, ready: 2 }) > 0);
});

test("while claims come, a pool starts as many pods at once as it is empty, and all it may a second after the last", () => {
  const { pause, pass } = pauseAt();
  const share = (missing: number) => pause.share({ workload: "w", size: 100, ready: 100 - missing, missing });
  assert.is(share(1), 1);
  pause.taken("w");
  assert.is(share(1), 0.02);
  assert.is(share(25), 0.5);
  assert.is(share(50), 1);
  assert.is(share(70), 1);
  assert.is(
    pause.share({ workload: "w", size: 100, ready: 19, missing: 10 }),
    1,
    "nearly empty: the others still warm up",
  );
  pass(1000);
  assert.is(share(1), 1);
});

test("claims on another workload hold nothing up", () => {
  const { pause } = pauseAt();
  pause.taken("other");
  assert.is(pause.waitMs(pool), 0);
});

test("a pod is soon taken where claims come fast enough to reach it within ten seconds", () => {
  const { pause, pass } = pauseAt();
  const soon = (ready: number) => pause.turnMs({ name: "w", ready }) !== undefined;
  assert.is(soon(10), false);
  for (let count = 0; count < 100; count++) {
    pause.taken("w");
    pass(25);
  }
  assert.equal([soon(300), soon(500)], [true, false]);
  const turnMs = pause.turnMs({ name: "w", ready: 200 }) ?? 0;
  assert.ok(turnMs > 4000 && turnMs < 6000, `${turnMs}`);
  assert.is(pause.turnMs({ name: "other", ready: 1 }), undefined);
});

test("a pod is not soon taken when claims are few, or have ended", () => {
  const { pause, pass } = pauseAt();
  for (let count = 0; count < 10; count++) {
    pause.taken("w");
    assert.is(pause.turnMs({ name: "w", ready: 1 }), undefined);
    pass(400);
  }
  for (let count = 0; count < 300; count++) pause.taken("w");
  const isSoon = () => pause.turnMs({ name: "w", ready: 100 }) !== undefined;
  assert.equal([pause.isCalm("w"), isSoon()], [false, true]);
  pass(1000);
  assert.equal([pause.isCalm("w"), isSoon()], [true, false]);
});

test("a clock that is set back holds nothing up, and leaves a rate that can be told", () => {
  const { pause, pass } = pauseAt();
  const takeMany = () => {
    for (let count = 0; count < 20; count++) pause.taken("w");
  };
  takeMany();
  assert.is(pause.waitMs(pool), 100);
  pass(-3_600_000);
  assert.is(pause.waitMs(pool), 0);
  assert.equal([pause.isCalm("w"), pause.turnMs({ name: "w", ready: 1 })], [true, undefined]);
  takeMany();
  pass(3_600_000);
  takeMany();
  const turnMs = pause.turnMs({ name: "w", ready: 20 }) ?? 0;
  assert.ok(turnMs > 900 && turnMs < 1100, `${turnMs}`);
});

test.run();
