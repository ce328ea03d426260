// @long a soak with leaders, edges and the API server killed; claims/leader and claims/operator-killed prove each
// @own-cluster
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { faultsOf } from "../../../scripts/soak/failover/options.ts";
import { runFailover } from "../../../scripts/soak/failover/run-failover.ts";

const test = suite("failover");

test("no claim of a client outside is lost or doubled while leaders, an edge and the API server are, and no former leader writes", async () => {
  const { claims, retries, failures, doubled, lateWrites, orphans } = await runFailover({
    faults: faultsOf(6),
    awayMs: 8000,
    tree: join(import.meta.dirname, "..", "..", ".."),
    log: (line) => console.log(`note: ${line}`),
    signal: new AbortController().signal,
  });
  console.log(`note: ${claims} claims; made again after ${JSON.stringify([...retries])}`);
  assert.equal({ failures, doubled, lateWrites, orphans }, { failures: [], doubled: [], lateWrites: [], orphans: [] });
});

test.run();
