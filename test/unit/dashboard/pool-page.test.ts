import { suite } from "uvu";
import * as assert from "uvu/assert";
import { schemas } from "../../../edge/api/openapi/schemas.ts";
import { poolMinutes, poolWords, timeRange } from "../../../edge/dashboard/pools/pool-minutes.ts";
import { limitWords, poolSize } from "../../../edge/dashboard/pools/pool-size.ts";
import { choiceOf, fieldChoices, otherNames } from "../../../edge/dashboard/spec/spec-fields.ts";

const test = suite("dashboard/pool page");

test("poolSize is the fixed size, or what the operator aims for", () => {
  const status = { phase: "Ready", ready: 1, warming: 0 } as const;
  const shown = (spec: object, more = {}) => {
    const pool = { spec: { workloadRef: "w", ...spec }, status: { ...status, ...more } };
    return [poolSize(pool), limitWords(pool)];
  };
  assert.equal(shown({ size: 3 }, { desired: 2 }), [3, undefined]);
  assert.equal(shown({ maxSize: 9 }), [1, "1 to 9"]);
  assert.equal(shown({ maxSize: 9, minSize: 2 }, { desired: 5 }), [5, "2 to 9"]);
  const scaling = { reason: "Schedule", message: "m", needed: 1, minSize: 4, arrivalsPerMinute: 0 };
  assert.equal(shown({ maxSize: 9, minSize: 2 }, { desired: 5, scaling }), [5, "4 to 9"]);
});

test("the form has the fields of a fixed size, or of one that the operator chooses", () => {
  const { PoolSpec: choices = [] } = fieldChoices;
  assert.is(choiceOf(choices, {}), 0);
  assert.is(choiceOf(choices, { workloadRef: "w", size: 0 }), 0);
  assert.is(choiceOf(choices, { workloadRef: "w", maxSize: 5 }), 1);
  const names = Object.keys(schemas.PoolSpec.properties ?? {});
  const shown = (chosen: number) => names.filter((name) => !otherNames(choices, chosen).has(name));
  assert.equal(shown(0), ["workloadRef", "size", "maxFillConcurrency"]);
  assert.equal(
    shown(1),
    names.filter((name) => name !== "size"),
  );
});

const since = "2026-01-02T03:04:40.000Z";
const history = {
  ...{ since, replica: "one", stepSeconds: 10 },
  ready: [4, 4, 3, 4],
  lowest: [4, 4, 0, 2],
  warming: [0, 0, 1, 0],
  refilled: [0, 0, 3, 1],
  hits: [0, 1, 4, 0],
  misses: [0, 0, 1, 0],
};

test("poolMinutes adds up what was given, and keeps the fewest and the last", () => {
  assert.equal(poolMinutes(history), [
    { at: Date.parse("2026-01-02T03:04:00Z"), ready: 4, lowest: 4, refilled: 0, hits: 1, misses: 0 },
    { at: Date.parse("2026-01-02T03:05:00Z"), ready: 4, lowest: 0, refilled: 4, hits: 4, misses: 1 },
  ]);
});

test("poolWords tells the hit rate, and never 100 % where one missed", () => {
  assert.is(
    poolWords(history),
    "5 of 6 claims got a warm pod (83 %), 1 started cold; 4 pods became ready; the fewest ready at once: 0.",
  );
  assert.match(poolWords({ ...history, hits: [999], misses: [1] }), "(99 %)");
  assert.is(poolWords({ ...history, hits: [0], misses: [0] }), "No claims used it; 4 pods became ready.");
});

test("timeRange shows an hour at most, and of a younger history what there is", () => {
  const now = 1_800_000_000;
  assert.equal(timeRange(now - 7200, now), [now - 3600, now]);
  assert.equal(timeRange(now - 1200, now), [now - 1200, now]);
  assert.equal(timeRange(now - 10, now), [now - 300, now]);
});

test.run();
