// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { matchPath } from "../../../edge/dashboard/match.ts";
import { durationWords, timeWords } from "../../../edge/dashboard/parts/time-words.ts";

const test = suite("dashboard/match");

test("a pattern names the parts of a path, which are decoded", () => {
  assert.equal(matchPath("/", "/"), {});
  assert.equal(matchPath("/dashboard/claims", "/dashboard/claims/"), {});
  assert.equal(matchPath("/dashboard/claims/:tenant/:workload", "/dashboard/claims/a%20b/hello"), {
    tenant: "a b",
    workload: "hello",
  });
  assert.is(matchPath("/dashboard/claims/:tenant", "/dashboard/claims"), undefined);
  assert.is(matchPath("/dashboard/claims/:tenant", "/dashboard/claims/%E0%A4%A"), undefined);
  assert.is(matchPath("/dashboard/claims/:tenant/:workload", "/dashboard/claims//hello"), undefined);
});

test("times and durations have the unit that fits them", () => {
  assert.equal(
    [0, 1999, 59_999, 60_000, 3_599_999, 7_200_000].map((ms) => timeWords(1e12 - ms, 1e12)),
    ["0 s ago", "1 s ago", "59 s ago", "1 min ago", "59 min ago", "over 1 h ago"],
  );
  assert.is(timeWords(1e12 + 5000, 1e12), "in 5 s");
  assert.equal([14.4, 9999, 10_000, 119_999, 125_000].map(durationWords), [
    "14 ms",
    "9999 ms",
    "10.0 s",
    "120.0 s",
    "2 min 5 s",
  ]);
});

test.run();
