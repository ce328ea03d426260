import { test } from "uvu";
import * as assert from "uvu/assert";
import { createMetrics } from "../../../operator/metrics.ts";

test("metrics tell what archives take by workload, asked for once a scrape", async () => {
  const metrics = createMetrics();
  const told = async () =>
    (await metrics.registry.metrics()).split("\n").filter((line) => line.startsWith("tenancy_snapshot_store"));
  assert.equal(await told(), []);
  let asked = 0;
  let workloads: Record<string, { archives: number; bytes: number }> = {
    a: { archives: 2, bytes: 30 },
    b: { archives: 1, bytes: 5 },
  };
  metrics.followStoreUsage(async () => {
    asked += 1;
    return { archives: 3, bytes: 35, workloads };
  });
  assert.equal(await told(), [
    'tenancy_snapshot_store_archives{workload="a"} 2',
    'tenancy_snapshot_store_archives{workload="b"} 1',
    'tenancy_snapshot_store_bytes{workload="a"} 30',
    'tenancy_snapshot_store_bytes{workload="b"} 5',
  ]);
  assert.is(asked, 1);
  workloads = {};
  assert.equal(await told(), []);
});

test.run();
