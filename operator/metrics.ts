import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { SnapshotMetadata } from "../crds/snapshots/snapshot-metadata.ts";
import type { StoreUsage } from "../crds/snapshots/snapshot-store.ts";

export type Metrics = ReturnType<typeof createMetrics>;

/** The operator's metrics, in a registry of their own; every label takes its values from a fixed list. */
export function createMetrics() {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const snapshotSeconds = new Histogram({
    name: "tenancy_snapshot_seconds",
    help: "Time of a save or restore of a tenant's files",
    labelNames: ["operation", "outcome"],
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120, 600],
    registers,
  });
  const snapshotBytes = new Counter({
    name: "tenancy_snapshot_bytes_total",
    help: "Bytes of archives that were saved or restored",
    labelNames: ["operation"],
    registers,
  });
  let askUsage: () => Promise<StoreUsage | undefined> = async () => undefined;
  let asking: ReturnType<typeof askUsage> | undefined;
  function storeGauge(name: string, { what, help }: { what: "archives" | "bytes"; help: string }): void {
    new Gauge({
      name,
      help,
      labelNames: ["workload"],
      registers,
      async collect() {
        // A scrape asks once for both.
        asking ??= askUsage().finally(() => {
          asking = undefined;
        });
        const used = await asking;
        this.reset();
        for (const [workload, taken] of Object.entries(used?.workloads ?? {})) this.set({ workload }, taken[what]);
      },
    });
  }
  storeGauge("tenancy_snapshot_store_archives", {
    what: "archives",
    help: "Archives that are kept, of which each older version is one; told by the leader alone",
  });
  storeGauge("tenancy_snapshot_store_bytes", {
    what: "bytes",
    help: "Bytes of the archives that are kept; told by the leader alone",
  });
  return {
    registry,
    /** Whom to ask, at each scrape, what archives take; undefined where that is not known or another leads. */
    followStoreUsage(ask: typeof askUsage): void {
      askUsage = ask;
    },
    /** Measures a save or a restore of files. */
    async timeSnapshot<T extends (SnapshotMetadata & { readonly isUnchanged?: boolean }) | undefined>(
      operation: "save" | "restore",
      work: () => Promise<T>,
    ): Promise<T> {
      const end = snapshotSeconds.startTimer({ operation });
      try {
        const snapshot = await work();
        const isUnchanged = snapshot?.isUnchanged === true;
        end({ outcome: isUnchanged ? "unchanged" : "done" });
        snapshotBytes.inc({ operation }, isUnchanged ? 0 : (snapshot?.sizeBytes ?? 0));
        return snapshot;
      } catch (error) {
        end({ outcome: "failed" });
        throw error;
      }
    },
    saveFailures: new Counter({
      name: "tenancy_save_failures_total",
      help: "Saves that failed and are tried again: archive may not be kept, command in the pod failed, store, connection",
      labelNames: ["reason"],
      registers,
    }),
    buildSeconds: new Histogram({
      name: "tenancy_build_seconds",
      help: "Time of a build of an image, from its Job's creation to its end",
      labelNames: ["outcome"],
      buckets: [1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800],
      registers,
    }),
    buildSteps: new Counter({
      name: "tenancy_build_steps_total",
      help: "Steps of images that were built, by whether they were in the cache",
      labelNames: ["cached"],
      registers,
    }),
    buildFailures: new Counter({
      name: "tenancy_build_failures_total",
      help: "Builds that failed, those that are begun anew among them",
      labelNames: ["reason"],
      registers,
    }),
    buildsUnderWay: new Gauge({ name: "tenancy_builds_under_way", help: "Builds that have not ended", registers }),
    leading: new Gauge({ name: "tenancy_operator_leading", help: "1 while this process leads", registers }),
    reconcileSeconds: new Histogram({
      name: "tenancy_operator_reconcile_seconds",
      help: "Time of one reconcile",
      labelNames: ["controller", "outcome"],
      buckets: [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30],
      registers,
    }),
    handlerFailures: new Counter({
      name: "tenancy_handler_failures_total",
      help: "Times that an object could not be handled, which the log names",
      labelNames: ["resource"],
      registers,
    }),
    claimSeconds: new Histogram({
      name: "tenancy_claim_seconds",
      help: "Time from a claim's creation, or its last attempt, to Active",
      labelNames: ["source"],
      buckets: [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 120],
      registers,
    }),
    poolClaims: new Counter({
      name: "tenancy_pool_claims_total",
      help: "Claims on workloads that have a pool: hit when it had a warm pod",
      labelNames: ["result"],
      registers,
    }),
    poolReady: new Gauge({
      name: "tenancy_pool_ready",
      help: "Warm pods that can be claimed",
      labelNames: ["pool"],
      registers,
    }),
    warmUpSeconds: new Histogram({
      name: "tenancy_pool_warm_up_seconds",
      help: "Time from a warm pod's creation to its readiness",
      buckets: [0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 120],
      registers,
    }),
    claimErrors: new Counter({
      name: "tenancy_claim_errors_total",
      help: "Claims that could not be fulfilled",
      labelNames: ["reason"],
      registers,
    }),
    apiRequests: new Counter({
      name: "tenancy_api_requests_total",
      help: "Requests to the API server",
      labelNames: ["verb", "resource", "status"],
      registers,
    }),
  };
}
