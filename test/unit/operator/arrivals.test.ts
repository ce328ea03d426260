import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createArrivals } from "../../../operator/pool/arrivals.ts";
import { manualClock } from "../manual-clock.ts";

const test = suite("createArrivals");

function recorded() {
  const clock = manualClock();
  const arrivals = createArrivals(clock);
  const pass = (seconds: number): void => clock.set(clock.now() + seconds * 1000);
  /** The claims by the number of steps ago. */
  const read = (): Record<number, number> | undefined => {
    const counts = arrivals.read("w");
    return (
      counts && Object.fromEntries([...counts].reverse().flatMap((count, ago) => (count > 0 ? [[ago, count]] : [])))
    );
  };
  return { arrivals, pass, read };
}

test("counts claims by the time of their creation, for an hour", () => {
  const { arrivals, pass, read } = recorded();
  assert.is(read(), undefined);
  arrivals.arrived("w", 0);
  arrivals.arrived("w", 0);
  arrivals.arrived("w", 12_000);
  arrivals.arrived("w", 3_600_000);
  assert.equal(read(), { 0: 2, 2: 1 });
  pass(1800);
  arrivals.arrived("w", 0);
  assert.equal(read(), { 0: 1, 360: 2, 362: 1 });
  pass(1795);
  assert.equal(read(), { 359: 1, 719: 2 });
  pass(5);
  assert.equal(read(), { 360: 1 });
  pass(7200);
  assert.equal(read(), {});
  arrivals.arrived("w", 0);
  assert.equal(read(), { 0: 1 });
});

test("takes no more memory for more claims, and counts no further than a step can", () => {
  const { arrivals, read } = recorded();
  for (let count = 0; count < 70_000; count += 1) arrivals.arrived("w", 0);
  assert.equal(read(), { 0: 65_535 });
});

test("forgets a workload, and counts misses of each alone", () => {
  const { arrivals } = recorded();
  arrivals.missed("w");
  arrivals.missed("w");
  arrivals.missed("other");
  assert.is(arrivals.missesOf("w"), 2);
  arrivals.forget("w");
  assert.equal([arrivals.missesOf("w"), arrivals.missesOf("other"), arrivals.read("w")], [0, 1, undefined]);
});

test.run();
