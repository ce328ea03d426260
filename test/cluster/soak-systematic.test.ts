// @long a driver that finds defects, and proves no promise of its own
// @own-cluster
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { SystematicReport } from "../../scripts/soak/systematic/report.ts";
import { renderSystematic } from "../../scripts/soak/systematic/report.ts";
import { runEverywhere } from "../../scripts/soak/systematic/run-everywhere.ts";
import { runStates } from "../../scripts/soak/systematic/run-states.ts";

const test = suite("systematic soak");
const shared = {
  tree: join(import.meta.dirname, "..", ".."),
  ...{ keepGoing: true, traceFolder: undefined, log: () => undefined, signal: new AbortController().signal },
};

test("a release ends in the same state whichever write the operator is killed after, and event it gets late", async () => {
  const chosen = ["crash PUT archives 1", "crash DELETE pods 1", "lost MODIFIED tenancyclaims 2"];
  const report = await runEverywhere({
    ...shared,
    stories: ["release with files"],
    at: undefined,
    sample: (at) => chosen.includes(at),
  });
  assertSame(report);
  assert.is(report.counts.runs, chosen.length);
  assert.equal(report.left, []);
});

test("a workload whose network access was changed ends as one that never had another", async () => {
  const report = await runStates({ ...shared, seed: 1, fields: ["workload.network.access"] });
  assertSame(report);
  assert.is(report.counts.compared, 4);
});

function assertSame(report: SystematicReport): void {
  const text = renderSystematic(report);
  console.log(`note: ${text.split("\n", 1)[0]}`);
  assert.is(report.differences.length, 0, text);
}

test.run();
