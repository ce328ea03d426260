import { test } from "uvu";
import * as assert from "uvu/assert";
import { machineShare, machineTime } from "../../../scripts/bench/environment/usage.ts";

test("machineTime: all cores together; time given to guests is not counted twice", () => {
  const stat = "cpu  100 10 50 800 20 5 15 0 40 4\ncpu0 50 5 25 400 10 2 8 0 20 2\nintr 1\n";
  assert.equal(machineTime(stat), { totalMs: 10_000, idleMs: 8200 });
});

test("machineTime: reads this machine's", () => {
  const { totalMs, idleMs } = machineTime();
  assert.ok(totalMs > 0 && idleMs >= 0 && idleMs <= totalMs);
});

test("machineShare: what is neither idle nor ours went to others", () => {
  const before = { totalMs: 10_000, idleMs: 4000 };
  const after = { totalMs: 20_000, idleMs: 7000 };
  assert.equal(machineShare(before, after, 5000), { idle: 0.3, others: 0.2 });
});

test("machineShare: ticks that round ours up make no negative share", () => {
  const before = { totalMs: 0, idleMs: 0 };
  assert.equal(machineShare(before, { totalMs: 100, idleMs: 50 }, 60), { idle: 0.5, others: 0 });
  assert.equal(machineShare(before, before, 0), { idle: 0, others: 0 });
});

test.run();
