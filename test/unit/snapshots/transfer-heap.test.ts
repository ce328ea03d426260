import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { OPERATOR_FLAGS } from "../../../scripts/start/bundle-programs.ts";

/** Passes buffers through a heap with some objects, as a transfer does, and says how often all of it was collected. */
const program = `
import { constants, PerformanceObserver } from "node:perf_hooks";
import { setImmediate } from "node:timers/promises";
const { createTransferHeap } = await import(${JSON.stringify(new URL("../../../operator/snapshots/streams/transfer-heap.ts", import.meta.url).href)});
const withTransferHeap = createTransferHeap();
const objects = Array.from({ length: 100_000 }, (_, index) => ({ index, name: "object " + index, of: [index] }));
let collections = 0;
const observer = new PerformanceObserver((list) => {
  for (const { detail } of list.getEntries()) if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) collections += 1;
});
observer.observe({ entryTypes: ["gc"] });
async function pass() {
  const under = [];
  for (let bytes = 0; bytes < 128 * 2 ** 20; bytes += 65_536) {
    under.push(Buffer.allocUnsafeSlow(65_536));
    if (under.length > 64) under.shift();
    await setImmediate();
  }
}
const counts = { without: 0, within: 0 };
for (const where of ["without", "within", "without", "within", "without", "within", "without"]) {
  await (where === "within" ? withTransferHeap : (work) => work())(async () => {
    // The heap may grow as the flag says from the next collection on.
    gc();
    await setImmediate();
    collections = 0;
    await pass();
  });
  await setImmediate();
  counts[where] += collections;
}
console.log(JSON.stringify([counts, objects.length]));`;

test("createTransferHeap has what passes through collected less often, and only while it does", async () => {
  const { stdout } = await promisify(execFile)("node", [
    ...OPERATOR_FLAGS,
    "--expose-gc",
    ...["--import", import.meta.resolve("tsx"), "--input-type=module", "--eval", program],
  ]);
  const [{ without, within }] = JSON.parse(stdout);
  assert.ok(within * 2 < without, stdout);
});

test.run();
