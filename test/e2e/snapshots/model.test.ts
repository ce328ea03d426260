// @limit 900
import fc from "fast-check";
import * as assert from "uvu/assert";
import { coldAndWarm, lifeSuite } from "./life-suite.ts";
import { type Expected, modelCommands } from "./model.ts";

const TIME_LIMIT_MS = Number(process.env.TENANCY_MODEL_SECONDS ?? 60) * 1000;
const LEAST_STEPS = 10;

const test = lifeSuite("files over claims, releases and crashes, on real containers", {
  name: "model",
  prepare: coldAndWarm,
});

test("a tenant sees its last saved files or an explicit error, in any order of events", async ({ life, faults }) => {
  let sequences = 0;
  let steps = 0;
  const seed = Number(process.env.TENANCY_MODEL_SEED ?? Date.now() % 2 ** 31);
  console.log(`note: model on real containers, seed ${seed}`);
  const endsAt = Date.now() + TIME_LIMIT_MS;
  // What one sequence has saved, the next one finds.
  const saved = new Map<string, string>();
  const property = fc.asyncProperty(fc.commands(modelCommands, { maxCommands: 40, size: "max" }), async (commands) => {
    if (Date.now() >= endsAt && steps >= LEAST_STEPS) return;
    const expected: Expected = {
      saved,
      sessions: new Map(),
      written: steps,
      steps: [],
      endsAt,
      leastSteps: LEAST_STEPS - steps,
    };
    await fc.asyncModelRun(() => ({ model: expected, real: { life, faults } }), commands);
    for (const [key, { claim, content }] of expected.sessions) {
      await life.release(claim);
      saved.set(key, content);
    }
    sequences += 1;
    steps += expected.steps.length;
  });
  // A failure is shown as it was found: to shrink it takes another cluster.
  await fc.assert(property, { seed, numRuns: 100, endOnFailure: true, includeErrorInReport: true });
  console.log(`note: model on real containers: ${sequences} sequences, ${steps} steps`);
  assert.ok(steps >= LEAST_STEPS, `${steps} steps ran in the time`);
});

test.run();
