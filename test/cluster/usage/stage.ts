import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { openStore } from "../../../crds/snapshots/open-store.ts";
import { operatorConfig } from "../../../operator/config.ts";
import type { DyingRecorder } from "../dying-operator.ts";
import { runHelper } from "../snapshots/simulated-helper.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { startBucket } from "./bucket.ts";
import { churnAndCompare } from "./churn.ts";
import { startFaultySink } from "./faulty-sink.ts";

/** A cluster with a pool, and both stores of usage records. */
export interface UsageStage {
  onVolume(options: { claims: number; mostWrites: number }): Promise<void>;
  inBucket(options: { claims: number; mostWrites: number }): Promise<void>;
  stop(): Promise<void>;
}

export async function startUsageStage(name: string): Promise<UsageStage> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-usage-"));
  const tenancy = await startTenancy(name);
  const operator = tenancy.startOperator();
  // The helper pod and its volume come with the first workload that saves files.
  await tenancy.createWorkload("files", { filesystem: { overlayDirs: ["/data"] } });
  await tenancy.createWorkload("hello");
  await tenancy.createPool("hello", { workloadRef: "hello", size: 12, maxFillConcurrency: 12 });
  const helper = await runHelper(tenancy, folder);
  await tenancy.untilPool("hello", ({ status }) => status?.ready === 12);
  await operator.stop();
  return {
    onVolume: (options) => churnIn(tenancy, { ...options, told: { RECORDS_USAGE: "true" } }),
    async inBucket(options) {
      const bucket = await startBucket("usage");
      try {
        await churnIn(tenancy, { ...options, told: { RECORDS_USAGE: "true", ...bucket.env } });
      } finally {
        await bucket.stop();
      }
    },
    async stop() {
      await tenancy.stop();
      await helper.stop();
      rmSync(folder, { recursive: true, force: true, maxRetries: 20 });
    },
  };
}

async function churnIn(
  tenancy: Tenancy,
  { told, ...options }: { claims: number; mostWrites: number; told: DyingRecorder },
): Promise<void> {
  const cluster = await loadClusterConfig({ kubeconfigPath: tenancy.cluster.kubeconfigPath });
  const env = { ...told };
  const { snapshots } = operatorConfig(env);
  const opened = openStore(snapshots.store, { client: tenancy.client, cluster, namespace: NAMESPACE, env });
  const sink = await startFaultySink();
  try {
    await churnAndCompare(tenancy, {
      ...{ ...options, snapshots, sink, usage: opened.usage },
      told: { ...told, TENANCY_SINK: sink.url, TENANCY_SINK_FOLDER: sink.folder },
    });
  } finally {
    await sink.stop();
    opened.close();
  }
}
