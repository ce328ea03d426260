import { test } from "uvu";
import * as assert from "uvu/assert";
import { createMetrics } from "../../../operator/metrics.ts";

function figures(beginning: string, { registry } = createMetrics()): Promise<string[]> {
  return registry.metrics().then((text) => text.split("\n").filter((line) => line.startsWith(beginning)));
}

test("the leader tells how the store stands, asked once a scrape; of what is not known nothing is told", async () => {
  const metrics = createMetrics();
  let asked = 0;
  let workloads: Record<string, { archives: number; bytes: number }> = {
    a: { archives: 2, bytes: 30 },
    b: { archives: 1, bytes: 5 },
  };
  let isReachable = true;
  let space: { freeBytes: number; totalBytes: number } | undefined = { freeBytes: 4, totalBytes: 90 };
  metrics.followStore(async () => {
    asked += 1;
    if (!isReachable) return { isReachable: false };
    return { isReachable: true, usage: { archives: 3, bytes: 35, workloads }, space, workloadLimitBytes: 40 };
  });
  const told = () => figures("tenancy_snapshot_", metrics);
  assert.equal(await told(), []);
  assert.is(asked, 0);
  metrics.beginTerm();
  assert.equal(await told(), [
    'tenancy_snapshot_store_archives{workload="a"} 2',
    'tenancy_snapshot_store_archives{workload="b"} 1',
    'tenancy_snapshot_store_bytes{workload="a"} 30',
    'tenancy_snapshot_store_bytes{workload="b"} 5',
    "tenancy_snapshot_store_reachable 1",
    "tenancy_snapshot_volume_free_bytes 4",
    "tenancy_snapshot_volume_total_bytes 90",
    "tenancy_snapshot_workload_limit_bytes 40",
  ]);
  assert.is(asked, 1);
  [workloads, space] = [{}, undefined];
  assert.equal(await told(), ["tenancy_snapshot_store_reachable 1", "tenancy_snapshot_workload_limit_bytes 40"]);
  isReachable = false;
  assert.equal(await told(), ["tenancy_snapshot_store_reachable 0"]);
  metrics.endTerm();
  assert.equal(await told(), []);
});

test("pools and failed releases are read from the caches, by a process that does not lead too", async () => {
  const metrics = createMetrics();
  const told = async () => [
    ...(await figures("tenancy_operator_", metrics)),
    ...(await figures("tenancy_pool_ready", metrics)),
    ...(await figures("tenancy_pool_desired", metrics)),
    ...(await figures("tenancy_claims_waiting", metrics)),
    ...(await figures("tenancy_release", metrics)),
  ];
  const failed = [1_700_000_300_000, 1_700_000_100_000];
  assert.equal(await told(), [
    "tenancy_operator_cluster_contact 0",
    "tenancy_operator_leading 0",
    "tenancy_claims_waiting_for_room 0",
    "tenancy_releases_failed 0",
  ]);
  metrics.followCaches({
    isReady: () => true,
    pools: () => [{ name: "p", ready: 0, desired: 3 }],
    failedReleases: () => failed,
    waitingForRoom: () => 4,
  });
  assert.equal(await told(), [
    "tenancy_operator_cluster_contact 1",
    "tenancy_operator_leading 0",
    'tenancy_pool_ready{pool="p"} 0',
    'tenancy_pool_desired{pool="p"} 3',
    "tenancy_claims_waiting_for_room 4",
    "tenancy_releases_failed 2",
    "tenancy_release_failed_oldest_timestamp_seconds 1700000100",
  ]);
});

test("of the certificates of a use the first to end counts, while this process leads", async () => {
  const metrics = createMetrics();
  const times = (endsAt: number, renewAt: number) => ({
    endsAt: new Date(endsAt * 1000),
    renewAt: new Date(renewAt * 1000),
  });
  metrics.beginTerm();
  metrics.keepCertificate({ use: "snapshots" }, times(900, 800));
  metrics.keepCertificate({ use: "egress", uid: "a" }, times(500, 100));
  metrics.keepCertificate({ use: "egress", uid: "b" }, times(300, 200));
  const told = () => figures("tenancy_certificate_", metrics);
  assert.equal(await told(), [
    'tenancy_certificate_end_timestamp_seconds{use="snapshots"} 900',
    'tenancy_certificate_end_timestamp_seconds{use="egress"} 300',
    'tenancy_certificate_renewal_timestamp_seconds{use="snapshots"} 800',
    'tenancy_certificate_renewal_timestamp_seconds{use="egress"} 100',
  ]);
  metrics.forgetCertificate({ use: "egress", uid: "b" });
  assert.ok((await told()).includes('tenancy_certificate_end_timestamp_seconds{use="egress"} 500'));
  metrics.endTerm();
  assert.equal(await told(), []);
  metrics.beginTerm();
  assert.equal(await told(), []);
});

test("what an alert counts the increase of begins at 0", async () => {
  assert.ok(
    (await figures("tenancy_claim_errors_total")).includes('tenancy_claim_errors_total{reason="CrashLooping"} 0'),
  );
  assert.ok((await figures("tenancy_claim_seconds_count")).includes('tenancy_claim_seconds_count{source="cold"} 0'));
  const builds = await figures("tenancy_build_failures_total");
  assert.ok(builds.includes('tenancy_build_failures_total{reason="BuildLost"} 0'));
});

test.run();
