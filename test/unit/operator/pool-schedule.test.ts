import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type PoolSpec, scalingOf } from "../../../crds/pool.ts";
import { floorAt } from "../../../operator/pool/pool-schedule.ts";

const test = suite("floorAt");

const office: PoolSpec["schedule"] = [
  { cron: "0 8 * * 1-5", timezone: "Europe/Berlin", minSize: 20 },
  { cron: "0 18 * * 1-5", timezone: "Europe/Berlin", minSize: 0 },
];

function at(time: string, spec: Partial<PoolSpec> = {}) {
  const scaling = scalingOf({ spec: { workloadRef: "w", maxSize: 50, minSize: 2, ...spec } });
  if (scaling === undefined) throw new Error("it has a fixed size");
  return floorAt(Date.parse(time), scaling);
}

const iso = (ms: number) => new Date(ms).toISOString();

test("the entry that occurred last is in force, in its time zone, from its second on", () => {
  const monday = at("2026-11-30T06:59:59.999Z", { schedule: office });
  assert.equal([monday.minSize, monday.isScheduled, iso(monday.until)], [2, false, "2026-11-30T07:00:00.000Z"]);
  const morning = at("2026-11-30T07:00:00Z", { schedule: office });
  assert.equal([morning.minSize, morning.isScheduled, iso(morning.until)], [20, true, "2026-11-30T17:00:00.000Z"]);
  assert.is(at("2026-11-30T17:00:00.500Z", { schedule: office }).minSize, 2);
  assert.is(at("2026-12-05T12:00:00Z", { schedule: office }).minSize, 2, "Saturday");
  assert.is(at("2026-07-06T06:00:00Z", { schedule: office }).minSize, 20, "in summer");
});

test("minSize is the least, and maxSize the most", () => {
  assert.is(at("2026-11-30T12:00:00Z", { schedule: office, minSize: 30 }).minSize, 30);
  assert.is(at("2026-11-30T12:00:00Z", { schedule: office, maxSize: 10 }).minSize, 10);
  assert.is(at("2026-11-30T12:00:00Z", { minSize: 60 }).minSize, 50);
});

test("of entries at the same time the greatest counts, in any order", () => {
  const both = [3, 7].map((minSize) => ({ cron: "0 8 * * *", minSize }));
  for (const schedule of [both, [...both].reverse()]) assert.is(at("2026-11-30T12:00:00Z", { schedule }).minSize, 7);
});

test("without a schedule there is no next time", () => {
  const floor = at("2026-11-30T12:00:00Z");
  assert.equal([floor.minSize, floor.until, floor.problem], [2, Number.POSITIVE_INFINITY, undefined]);
});

test("an entry that cannot be parsed is named, and the others count", () => {
  const schedule = [{ cron: "0 8 * * *", timezone: "Mars/Olympus", minSize: 9 }, ...office];
  const floor = at("2026-11-30T12:00:00Z", { schedule });
  assert.is(floor.minSize, 20);
  assert.match(floor.problem ?? "", /^spec\.schedule\[0\] is ignored: cannot parse 0 8 \* \* \* in Mars\/Olympus: /);
});

test.run();
