// How the comparison is made: a pool that scales by itself plays a day of load with its defaults, from minSize on, so
// that the misses by which it learns count. Then every fixed size plays the same day. The smallest one that has at most
// as many misses is the best fixed size: it is chosen with the whole day known. What both cost is the time for which
// warm pods are there, ready or starting. Claims that miss start their own pods, which neither pays for.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { bestFixed, playFixed, playScaling, recordedLoads } from "./pool-simulation.ts";

const test = suite("a pool that scales by itself against every fixed size");

for (const load of recordedLoads()) {
  test(`${load.name}: costs at most 10 % more than the best fixed size with as few misses`, () => {
    const scaling = playScaling(load);
    const best = bestFixed(load, scaling.misses);
    const claims = load.claims.reduce((sum, count) => sum + count, 0);
    const ratio = scaling.podMinutes / best.podMinutes;
    console.info(
      `note: ${load.name}, ${claims} claims: by itself ${scaling.misses} misses, ${scaling.podMinutes} pod-minutes, ` +
        `at most ${scaling.largest} pods; fixed at ${best.size} ${best.misses} misses, ${best.podMinutes} ` +
        `pod-minutes; ${ratio.toFixed(2)} of its cost`,
    );
    assert.ok(best.misses <= scaling.misses);
    assert.ok(playFixed(load, best.size - 1).misses > scaling.misses, "a smaller one misses more");
    assert.ok(ratio <= 1.1, `${ratio}`);
    assert.ok(scaling.misses <= 0.03 * claims, `${scaling.misses} of ${claims} missed`);
  });
}

test.run();
