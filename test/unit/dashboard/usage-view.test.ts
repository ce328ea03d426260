// @runtimes node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { daysOf, eachDay, readView } from "../../../edge/dashboard/usage/view.ts";

const test = suite("dashboard/usage-view");

test("ranges are whole days of UTC, also around the ends of months and years", () => {
  const days = (range: Parameters<typeof daysOf>[0]["range"], today: string) =>
    daysOf({ range, first: "", last: "" }, today);
  assert.equal(days("today", "2026-12-31"), { from: "2026-12-31", to: "2027-01-01" });
  assert.equal(days("7d", "2027-01-03"), { from: "2026-12-28", to: "2027-01-04" });
  assert.equal(days("month", "2028-02-29"), { from: "2028-02-01", to: "2028-03-01" });
  assert.equal(days("last-month", "2027-01-15"), { from: "2026-12-01", to: "2027-01-01" });
  assert.equal(days("last-month", "2028-03-31"), { from: "2028-02-01", to: "2028-03-01" });
});

test("typed days have the last one in them, and none that the API refuses", () => {
  const days = (first: string, last: string) => daysOf({ range: "days", first, last }, "2026-11-29");
  assert.equal(days("2026-11-29", "2026-11-29"), { from: "2026-11-29", to: "2026-11-30" });
  assert.equal(days("2026-01-01", "2026-04-02"), { from: "2026-01-01", to: "2026-04-03" });
  for (const [first, last] of [
    ["2026-01-01", "2026-04-03"],
    ["2026-11-30", "2026-11-29"],
    ["2026-02-30", "2026-03-02"],
    ["", "2026-11-29"],
    ["x", "<b>"],
  ] as const) {
    assert.is(days(first, last), undefined, `${first} ${last}`);
  }
});

test("days without use are zero, and unknown words of an address are ignored", () => {
  const sums = { sessions: 1, seconds: 2, vcpuSeconds: 3, mibSeconds: 4, snapshotByteHours: 5, sources: {} };
  const used = { day: "2026-11-02", ...sums };
  assert.equal(
    eachDay({ from: "2026-11-01", to: "2026-11-04" }, [used]).map(({ day, sum }) => [day, sum.vcpuSeconds]),
    [
      ["2026-11-01", 0],
      ["2026-11-02", 3],
      ["2026-11-03", 0],
    ],
  );
  const { range, by, chart, tenant } = readView(
    new URLSearchParams("range=toString&by=x&chart=constructor"),
    undefined,
  );
  assert.equal([range, by, chart, tenant], ["30d", "tenant", "vcpu", ""]);
  assert.equal(readView(new URLSearchParams(), ["alice", "bob"]).tenant, "alice");
});

test.run();
