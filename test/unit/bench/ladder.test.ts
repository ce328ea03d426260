import { test } from "uvu";
import * as assert from "uvu/assert";
import { nextRate } from "../../../scripts/bench/paths/ladder.ts";

/** The rates that are tried, each once, where the highest that is held is known. */
function climb(highest: number): number[] {
  const steps: { perSecond: number; held: boolean }[] = [];
  for (let rate = nextRate(steps); rate !== undefined; rate = nextRate(steps)) {
    steps.push({ perSecond: rate, held: rate <= highest });
  }
  return [...new Set(steps.map(({ perSecond }) => perSecond))];
}

for (const [what, highest, rates] of [
  ["up by 20 until one is not held, then halfway down to 5 a second", 60, [60, 80, 70, 65]],
  ["the same, from a higher rate", 104, [60, 80, 100, 120, 110, 105]],
  ["down by 20 until one is held", 49, [60, 40, 50, 45]],
  ["the same, up again to 5 a second", 57, [60, 40, 50, 55]],
  ["to the end where nothing is held", 0, [60, 40, 20, 10, 5]],
] as const) {
  test(`nextRate: ${what}`, () => assert.equal(climb(highest), rates));
}

test("nextRate: a rate counts as not held when it is not for a second time", () => {
  const first = { perSecond: 60, held: false };
  assert.is(nextRate([first]), 60);
  assert.is(nextRate([first, { perSecond: 60, held: true }]), 80);
  assert.is(nextRate([first, first]), 40);
});

test("nextRate: a lower rate that is not held bounds the search, whatever was held above it", () => {
  const notHeld = (perSecond: number) => ({ perSecond, held: false });
  const steps = [{ perSecond: 60, held: true }, notHeld(80), notHeld(80), notHeld(55), notHeld(55)];
  assert.is(nextRate(steps), undefined);
});

test.run();
