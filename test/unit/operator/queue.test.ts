import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createQueue, type Reconciler } from "../../../operator/queue.ts";
import { manualClock } from "../manual-clock.ts";
import { silentLog } from "../silent-log.ts";

const test = suite("createQueue");

function queueOf(reconcile: Reconciler<"only">["reconcile"], options: { concurrency?: number } = {}) {
  const clock = manualClock();
  const only = { name: "only", priority: 0, concurrency: options.concurrency ?? 8, reconcile } as const;
  return { clock, queue: createQueue({ controllers: [only], log: silentLog, clock }) };
}

test("runs a key that was added many times once", async () => {
  const runs: string[] = [];
  const { queue } = queueOf(async (key) => void runs.push(key));
  for (let count = 0; count < 10; count++) queue.add("only", "a");
  await settled();
  assert.equal(runs, ["a"]);
});

test("never runs a key twice at once, and runs it again when it was added meanwhile", async () => {
  const gates: (() => void)[] = [];
  let active = 0;
  let most = 0;
  const { queue } = queueOf(async () => {
    most = Math.max(most, ++active);
    await new Promise<void>((resolve) => gates.push(resolve));
    active--;
    return undefined;
  });
  queue.add("only", "a");
  await settled();
  queue.add("only", "a");
  queue.add("only", "a");
  await settled();
  assert.is(gates.length, 1);
  gates[0]?.();
  await settled();
  assert.is(gates.length, 2);
  gates[1]?.();
  await settled();
  assert.is(gates.length, 2);
  assert.is(most, 1);
});

test("keeps to the concurrency of a controller", async () => {
  const gates: (() => void)[] = [];
  const { queue } = queueOf(() => new Promise((resolve) => gates.push(() => resolve(undefined))), { concurrency: 3 });
  for (const key of ["a", "b", "c", "d", "e"]) queue.add("only", key);
  await settled();
  assert.is(gates.length, 3);
  gates[0]?.();
  await settled();
  assert.is(gates.length, 4);
  assert.is(queue.depth("only"), 4);
});

test("starts a controller of higher priority first, and lets no full one hold up another", async () => {
  const order: string[] = [];
  const never = new Promise<undefined>(() => undefined);
  const queue = createQueue({
    controllers: [
      {
        name: "low",
        priority: 2,
        concurrency: 1,
        reconcile: async (key) => {
          order.push(key);
          return never;
        },
      },
      { name: "high", priority: 1, concurrency: 2, reconcile: async (key) => void order.push(key) },
    ],
    log: silentLog,
    clock: manualClock(),
  });
  queue.add("low", "low-1");
  queue.add("low", "low-2");
  queue.add("high", "high-1");
  await settled();
  queue.add("high", "high-2");
  await settled();
  assert.equal(order, ["high-1", "low-1", "high-2"]);
});

test("backs off a key that fails, longer each time, and starts over after a success", async () => {
  let failing = true;
  let runs = 0;
  const { queue, clock } = queueOf(async () => {
    runs++;
    if (failing) throw new Error("not yet");
    return undefined;
  });
  queue.add("only", "a");
  await settled();
  const delays: number[] = [];
  for (let count = 0; count < 12; count++) {
    delays.push(await clock.runNext());
    await settled();
  }
  assert.is(runs, 13);
  for (const [index, delay] of delays.entries()) {
    const step = Math.min(60_000, 200 * 2 ** index);
    assert.ok(delay >= step / 2 && delay <= step, `delay ${index} is ${delay}`);
  }
  failing = false;
  await clock.runNext();
  await settled();
  failing = true;
  queue.add("only", "a");
  await settled();
  assert.ok((await clock.runNext()) <= 200);
});

test("an event ends a back-off early", async () => {
  let runs = 0;
  const { queue, clock } = queueOf(async () => {
    if (runs++ === 0) throw new Error("once");
    return undefined;
  });
  queue.add("only", "a");
  await settled();
  queue.add("only", "a");
  await settled();
  assert.is(runs, 2);
  assert.is(clock.pending(), 0);
});

test("requeues after the asked time, and the earliest of several asks counts", async () => {
  const runs: number[] = [];
  const { queue, clock } = queueOf(async () => {
    runs.push(clock.now());
    return runs.length === 1 ? { requeueAfterMs: 5000 } : undefined;
  });
  queue.add("only", "a", { afterMs: 1000 });
  queue.add("only", "a", { afterMs: 3000 });
  assert.is(await clock.runNext(), 1000);
  await settled();
  assert.is(await clock.runNext(), 5000);
  await settled();
  assert.is(runs.length, 2);
  assert.is(clock.pending(), 0);
});

test("a delay beyond what a timer holds is waited out in steps", async () => {
  let runs = 0;
  const { queue, clock } = queueOf(async () => void runs++);
  const thirtyDaysMs = 30 * 24 * 3600 * 1000;
  queue.add("only", "a", { afterMs: thirtyDaysMs });
  const start = clock.now();
  while (runs === 0) {
    await clock.runNext();
    await settled();
  }
  assert.is(clock.now() - start, thirtyDaysMs);
});

test("a clock that is set back delays no key", async () => {
  let runs = 0;
  const { queue, clock } = queueOf(async () => void runs++);
  queue.add("only", "a", { afterMs: 1000 });
  clock.set(clock.now() - 3_600_000);
  await clock.runNext();
  await settled();
  assert.is(runs, 1);
});

test("stop waits for what runs and takes no more", async () => {
  let release: () => void = () => undefined;
  const runs: string[] = [];
  const { queue } = queueOf(async (key) => {
    runs.push(key);
    await new Promise<void>((resolve) => {
      release = resolve;
    });
    return undefined;
  });
  queue.add("only", "a");
  await settled();
  let stopped = false;
  const stopping = queue.stop().then(() => {
    stopped = true;
  });
  queue.add("only", "b");
  await settled();
  assert.is(stopped, false);
  release();
  await stopping;
  assert.equal(runs, ["a"]);
});

/** Lets every promise that can settle do so. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 5; turn++) await new Promise<void>((resolve) => setImmediate(resolve));
}

test("gathers what is asked for during a controller's batchMs into one reconcile", async () => {
  const clock = manualClock();
  const runs: string[] = [];
  const only = {
    name: "only",
    priority: 0,
    concurrency: 1,
    batchMs: () => 200,
    reconcile: async (key: string) => void runs.push(key),
  };
  const queue = createQueue({ controllers: [only], log: silentLog, clock });
  queue.add("only", "a");
  queue.add("only", "a");
  await settled();
  assert.equal(runs, []);
  assert.is(await clock.runNext(), 200);
  await settled();
  assert.equal(runs, ["a"]);
});

test("aborts the signal of a reconcile under way when it stops, and waits for its end", async () => {
  const { queue } = queueOf(
    (_key, { signal }) => new Promise((resolve) => signal.addEventListener("abort", () => resolve(undefined))),
  );
  queue.add("only", "a");
  await settled();
  await queue.stop();
  assert.is(queue.depth("only"), 0);
});

test.run();
