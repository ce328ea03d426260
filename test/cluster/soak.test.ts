// @long a soak
// @own-cluster
// @limit 900
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { runSoak } from "../../scripts/soak/run-soak.ts";

const test = suite("soak");
const tree = join(import.meta.dirname, "..", "..");

for (const seed of [1, 2]) {
  test(`seed ${seed}: nothing that must never happen does, whatever fails meanwhile`, async () => {
    const { violations, trouble, summary, traceFolder } = await runSoak({
      ...{
        seed,
        minutes: 0.5,
        keepGoing: false,
        isContainers: false,
        tree,
        traceFolder: undefined,
      },
      log: () => undefined,
      signal: new AbortController().signal,
    });
    console.log(`note: ${summary.split("\n").slice(1, 3).join("; ")}`);
    const told = violations.map(({ invariant, message, events }) => [invariant, message, ...events].join("\n  "));
    assert.equal(trouble, []);
    assert.is(violations.length, 0, `${told.join("\n")}\nevery event: ${traceFolder}\n${summary}`);
  });
}

test.run();
