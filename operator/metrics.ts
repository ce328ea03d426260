import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { SnapshotMetadata } from "../crds/snapshots/snapshot-metadata.ts";
import type { StoreUsage } from "../crds/snapshots/snapshot-store.ts";

export type Metrics = ReturnType<typeof createMetrics>;

/** Why a claim could not be fulfilled. */
export const claimErrorReasons = [
  "WorkloadNotFound",
  "WorkloadNotReady",
  "WorkloadTerminating",
  "ImagePullFailed",
  "CrashLooping",
  "StartTimeout",
  "QuotaExceeded",
  "TenantQuotaExceeded",
  "TenantStartsExceeded",
  "RestoreFailed",
  "InvalidLabels",
  "InvalidInputs",
  "OnClaimFailed",
  "Duplicate",
] as const;

/** Why an image could not be built. */
export const buildFailureReasons = [
  /** A step failed, or the build file cannot be read. */
  "BuildFailed",
  "BuildTimeout",
  /** The build context does not exist, or cannot be fetched. */
  "ContextMissing",
  /** The build context breaks a rule. */
  "ContextRefused",
  /** The image was built and could not be pushed. */
  "RegistryRefused",
  /** The builder did not start. */
  "BuilderUnavailable",
  /** Its pod ended without a result. */
  "BuildLost",
] as const;

/** The state of the store of archives. */
export type StoreState =
  | { readonly isReachable: false }
  | {
      readonly isReachable: true;
      readonly usage: StoreUsage;
      /** Undefined for a store without a bound. */
      readonly space: { readonly freeBytes: number; readonly totalBytes: number } | undefined;
      /** The limit of a workload's archives; undefined if there is none. */
      readonly workloadLimitBytes: number | undefined;
    };

/** Values that each scrape reads from the caches, whether this process leads or not. */
export interface ObservedCaches {
  /** Whether all watches are open. */
  isReady(): boolean;
  pools(): Iterable<{ readonly name: string; readonly ready: number; readonly desired: number }>;
  /** For each claim whose files could not be saved: since when, in milliseconds since the epoch. */
  failedReleases(): Iterable<number>;
  /** How many claims say that they wait for room in a quota of the namespace. */
  waitingForRoom(): number;
}

/** A certificate that this process renews. */
export interface KeptCertificate {
  readonly use: "snapshots" | "egress";
  /** The workload's uid, for a proxy's certificate. @default there is only one certificate of that use */
  readonly uid?: string;
}

/** The operator's metrics, in their own registry. All labels have values from a fixed list. */
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
  const podBytes = new Counter({
    name: "tenancy_snapshot_pod_bytes_total",
    help: "Bytes that came from pods for saves, or went to them for restores",
    labelNames: ["operation"],
    registers,
  });
  const frozenSeconds = new Histogram({
    name: "tenancy_checkpoint_frozen_seconds",
    help: "Time for which a checkpoint has stopped the program of an instance",
    buckets: [0.02, 0.05, 0.1, 0.25, 0.5, 1, 2, 5],
    registers,
  });
  let askStore: () => Promise<StoreState | undefined> = async () => undefined;
  let asking: ReturnType<typeof askStore> | undefined;
  let caches: ObservedCaches | undefined;
  let isLeading = false;
  const certificates = new Map<string, { use: KeptCertificate["use"]; endsAt: Date; renewAt: Date }>();

  /** A gauge that is read at each scrape. */
  function readGauge(
    name: string,
    { help, labelNames = [], read }: { help: string; labelNames?: string[]; read: (gauge: Gauge) => unknown },
  ): void {
    new Gauge({
      name,
      help,
      labelNames,
      registers,
      async collect() {
        this.reset();
        // A gauge without labels would report 0 without a value.
        this.remove({});
        await read(this);
      },
    });
  }

  function storeGauge(
    name: string,
    options: { help: string; labelNames?: string[]; read: (gauge: Gauge, store: StoreState) => void },
  ): void {
    readGauge(name, {
      ...options,
      async read(gauge) {
        // One scrape asks the store only once.
        asking ??= (isLeading ? askStore() : Promise.resolve(undefined)).finally(() => {
          asking = undefined;
        });
        const store = await asking;
        if (store !== undefined) options.read(gauge, store);
      },
    });
  }
  for (const what of ["archives", "bytes"] as const) {
    storeGauge(`tenancy_snapshot_store_${what}`, {
      help:
        what === "archives"
          ? "Stored archives; each older version counts as one; reported only by the leader"
          : "Bytes of the stored archives; reported only by the leader",
      labelNames: ["workload"],
      read(gauge, store) {
        if (!store.isReachable) return;
        for (const [workload, taken] of Object.entries(store.usage.workloads)) gauge.set({ workload }, taken[what]);
      },
    });
  }
  storeGauge("tenancy_snapshot_store_reachable", {
    help: "1 while the store of archives answers, 0 while it does not; reported only by the leader",
    read: (gauge, { isReachable }) => gauge.set(isReachable ? 1 : 0),
  });
  for (const what of ["free", "total"] as const) {
    storeGauge(`tenancy_snapshot_volume_${what}_bytes`, {
      help: `${what === "free" ? "Free bytes" : "Bytes"} of the snapshots volume; reported only by the leader`,
      read(gauge, store) {
        if (store.isReachable && store.space !== undefined) gauge.set(store.space[`${what}Bytes`]);
      },
    });
  }
  storeGauge("tenancy_snapshot_workload_limit_bytes", {
    help: "Bytes that the archives of one workload may take; none without a limit; reported only by the leader",
    read(gauge, store) {
      if (store.isReachable && store.workloadLimitBytes !== undefined) gauge.set(store.workloadLimitBytes);
    },
  });
  readGauge("tenancy_operator_cluster_contact", {
    help: "1 while every watch of the cluster is open",
    read: (gauge) => gauge.set(caches?.isReady() ? 1 : 0),
  });
  for (const [name, help, what] of [
    ["tenancy_pool_ready", "Warm pods that can be claimed", "ready"],
    ["tenancy_pool_desired", "Warm pods that the pool should have", "desired"],
  ] as const) {
    readGauge(name, {
      help,
      labelNames: ["pool"],
      read(gauge) {
        for (const pool of caches?.pools() ?? []) gauge.set({ pool: pool.name }, pool[what]);
      },
    });
  }
  readGauge("tenancy_claims_waiting_for_room", {
    help: "Claims that have waited for room in a quota of the namespace for 5 s",
    read: (gauge) => gauge.set(caches?.waitingForRoom() ?? 0),
  });
  readGauge("tenancy_releases_failed", {
    help: "Claims in ReleaseFailed",
    read: (gauge) => gauge.set([...(caches?.failedReleases() ?? [])].length),
  });
  readGauge("tenancy_release_failed_oldest_timestamp_seconds", {
    help: "Since when the oldest claim in ReleaseFailed is in it; none without one",
    read(gauge) {
      const oldest = Math.min(...(caches?.failedReleases() ?? []));
      if (Number.isFinite(oldest)) gauge.set(oldest / 1000);
    },
  });
  for (const [name, help, what] of [
    ["tenancy_certificate_end_timestamp_seconds", "When the first certificate of that use ends", "endsAt"],
    ["tenancy_certificate_renewal_timestamp_seconds", "When the first certificate of that use is due", "renewAt"],
  ] as const) {
    readGauge(name, {
      help: `${help}; reported only by the leader`,
      labelNames: ["use"],
      read(gauge) {
        const first = new Map<string, number>();
        for (const { use, [what]: at } of isLeading ? certificates.values() : []) {
          first.set(use, Math.min(first.get(use) ?? Number.POSITIVE_INFINITY, at.getTime() / 1000));
        }
        for (const [use, at] of first) gauge.set({ use }, at);
      },
    });
  }
  readGauge("tenancy_operator_leading", {
    help: "1 while this process leads",
    read: (gauge) => gauge.set(isLeading ? 1 : 0),
  });
  const buildsUnderWay = new Gauge({
    name: "tenancy_builds_under_way",
    help: "Builds that have not ended; reported only by the leader",
    registers,
  });
  const claimSeconds = new Histogram({
    name: "tenancy_claim_seconds",
    help: "Time from a claim's creation, or its last attempt, to Active",
    labelNames: ["source"],
    buckets: [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 120],
    registers,
  });
  const claimErrors = new Counter({
    name: "tenancy_claim_errors_total",
    help: "Claims that could not be fulfilled",
    labelNames: ["reason"],
    registers,
  });
  const buildFailures = new Counter({
    name: "tenancy_build_failures_total",
    help: "Builds that failed, including those that are tried again",
    labelNames: ["reason"],
    registers,
  });
  // Start each series at 0, so that its first event is visible as an increase.
  for (const source of ["pool", "pool+data", "cold", "cold+data"]) claimSeconds.zero({ source });
  for (const reason of claimErrorReasons) claimErrors.inc({ reason }, 0);
  for (const reason of buildFailureReasons) buildFailures.inc({ reason }, 0);

  return {
    registry,
    claimSeconds,
    claimErrors,
    buildFailures,
    buildsUnderWay,
    /** @param ask called at each scrape while this process leads; returns undefined if there is no store */
    followStore(ask: typeof askStore): void {
      askStore = ask;
    },
    followCaches(observed: ObservedCaches): void {
      caches = observed;
    },
    /** Stores the present times of a certificate. */
    keepCertificate({ use, uid = "" }: KeptCertificate, times: { endsAt: Date; renewAt: Date }): void {
      certificates.set(`${use} ${uid}`, { use, ...times });
    },
    forgetCertificate({ use, uid = "" }: KeptCertificate): void {
      certificates.delete(`${use} ${uid}`);
    },
    beginTerm(): void {
      isLeading = true;
      certificates.clear();
    },
    /** From now on, the next leader reports the metrics of leaders. */
    endTerm(): void {
      isLeading = false;
      buildsUnderWay.set(0);
    },
    frozenSeconds,
    /** Measures a save or a restore of files. */
    async timeSnapshot<T extends (SnapshotMetadata & { readonly isUnchanged?: boolean }) | undefined>(
      { operation, onBytes }: { operation: "save" | "checkpoint" | "restore"; onBytes: (bytes: number) => void },
      work: (onBytes: (bytes: number) => void) => Promise<T>,
    ): Promise<T> {
      const end = snapshotSeconds.startTimer({ operation });
      try {
        const snapshot = await work((bytes) => {
          podBytes.inc({ operation }, bytes);
          onBytes(bytes);
        });
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
      help: "Saves that failed and are tried again, by cause: the archive breaks a rule, a command in the pod, the store, a connection",
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
    reconcileSeconds: new Histogram({
      name: "tenancy_operator_reconcile_seconds",
      help: "Time of one reconcile",
      labelNames: ["controller", "outcome"],
      buckets: [0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30],
      registers,
    }),
    handlerFailures: new Counter({
      name: "tenancy_handler_failures_total",
      help: "Failures of object handlers; the log names the object",
      labelNames: ["resource"],
      registers,
    }),
    usageRecords: new Counter({
      name: "tenancy_usage_records_total",
      help: "Usage records: written to the store, or lost because the store failed for too long",
      labelNames: ["result"],
      registers,
    }),
    poolClaims: new Counter({
      name: "tenancy_pool_claims_total",
      help: "Claims on workloads that have a pool: hit if the pool had a warm pod",
      labelNames: ["result"],
      registers,
    }),
    poolMisses: new Counter({
      name: "tenancy_pool_misses_total",
      help: "Claims that found no warm pod, counted for each pool of their workload",
      labelNames: ["pool"],
      registers,
    }),
    warmUpSeconds: new Histogram({
      name: "tenancy_pool_warm_up_seconds",
      help: "Time from a warm pod's creation to its readiness",
      buckets: [0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 120],
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
