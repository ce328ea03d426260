import type { BuildContexts } from "../crds/builds/build-contexts.ts";
import { createCluster } from "../crds/client/cluster.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import type { Exec } from "../crds/client/exec/exec.ts";
import { createHandlerFailures } from "../crds/client/watch/handler-failures.ts";
import { HistoryError } from "../crds/client/watch/listing.ts";
import { annotation } from "../crds/labels.ts";
import type { Log } from "../crds/log.ts";
import { desiredSize } from "../crds/pool.ts";
import type { EventSink } from "../crds/sink/event-sink.ts";
import type { SnapshotStore } from "../crds/snapshots/snapshot-store.ts";
import type { Tracer } from "../crds/tracing/tracer.ts";
import type { UsageStore } from "../crds/usage/usage-store.ts";
import { linkSignals, whenAborted } from "../crds/waits.ts";
import { failedSaveSince } from "./claim/claim-status.ts";
import type { OperatorConfig } from "./config.ts";
import { forgetHistory, historyOf, settleHistory } from "./history.ts";
import { startInformers } from "./informers.ts";
import { runWhenLeading } from "./leader.ts";
import type { Metrics } from "./metrics.ts";
import { FIELD_MANAGER } from "./operator-cluster.ts";
import type { ReadImageConfig } from "./registry/read-image-config.ts";
import { hasStore } from "./snapshots/has-store.ts";
import type { Snapshots } from "./snapshots/snapshots.ts";
import { startCaches } from "./start-caches.ts";
import { startControllers } from "./start-controllers.ts";

const LEASE_NAME = "tenancy-operator";

export interface OperatorOptions {
  client: ClusterClient;
  snapshots: Snapshots;
  contexts: BuildContexts;
  /** @default usage is not recorded */
  usage?: UsageStore | undefined;
  /** @default nothing is sent */
  sink?: EventSink | undefined;
  /** Whose space is recorded. @default it is not recorded */
  archives?: Pick<SnapshotStore, "list" | "names"> | undefined;
  /** @default from the image's registry */
  readImageConfig?: ReadImageConfig | undefined;
  /** Asks pods that do not become ready where they listen. @default they are not asked */
  exec?: Exec | undefined;
  config: OperatorConfig;
  metrics: Metrics;
  /** @default no traces */
  tracer?: Tracer | undefined;
  log: Log;
  /** Unique to this process. */
  identity: string;
  /** @default "tenancy-operator" */
  leaseName?: string;
  /** Abort it for a clean stop. */
  signal: AbortSignal;
}

export interface Operator {
  /** Resolves when all caches are synced. */
  synced: Promise<void>;
  /** Whether all watches are open. */
  isReady(): boolean;
  /** Whether the store can be asked for archives. */
  hasStore(): boolean;
  /** Resolves after a clean stop. */
  done: Promise<void>;
}

/** Watches the cluster from the start, leading or not, so that a new leader can work at once. */
export function startOperator(options: OperatorOptions): Operator {
  const { client, config, metrics, log, signal } = options;
  const onFailure = createHandlerFailures({
    log,
    count: ({ resource }) => metrics.handlerFailures.inc({ resource }),
  });
  const { informers, synced, isReady, untilReady, done } = startInformers(
    { client, namespace: config.namespace, onFailure, log, signal },
    (start) => startCaches(start, { config, log }),
  );

  const { pools, pods, claims } = informers;
  metrics.followCaches({
    isReady,
    *pools() {
      for (const pool of pools.store.values()) {
        const { name } = pool.metadata;
        yield { name, ready: pods.store.by("pool", `${name}/ready`).size, desired: desiredSize(pool) };
      }
    },
    waitingForRoom: () => claims.store.by("inRoomQueue", "").size,
    *failedReleases() {
      for (const claim of claims.store.by("needsHelper", "")) {
        const since = failedSaveSince(claim);
        if (since !== undefined) yield since;
      }
    },
  });

  let syncedAt = Number.POSITIVE_INFINITY;
  synced.then(
    () => {
      syncedAt = performance.now();
    },
    () => undefined,
  );
  const leaseName = options.leaseName ?? LEASE_NAME;
  const reference = { namespace: config.namespace, name: leaseName };
  // Not fenced: a leader writes about the history also after its term.
  const cluster = createCluster({ client, namespace: config.namespace, fieldManager: FIELD_MANAGER });
  const trusting = linkSignals(signal);
  let forgotten: Promise<void> | undefined;
  const leading = runWhenLeading({
    client,
    namespace: config.namespace,
    leaseName,
    identity: options.identity,
    leaseMs: config.leaseMs,
    log,
    signal: trusting.signal,
    annotate: async (lease) => ({
      ...(await historyOf(lease, { client, reference, followedForMs: performance.now() - syncedAt, signal })),
      // A new sink gets what comes.
      ...(options.sink !== undefined &&
        lease?.metadata.annotations?.[annotation.eventsSentUntil] === undefined && {
          [annotation.eventsSentUntil]: new Date().toISOString(),
        }),
    }),
    async lead(term) {
      const ending = linkSignals(term.signal, trusting.signal);
      try {
        // A watch may be closed at this moment. Without it, the new term would treat objects that it does not show as
        // gone.
        await untilReady(ending.signal);
        if (ending.signal.aborted) return;
        const told = term.annotations[annotation.historySince];
        const historySince = await settleHistory(told, { cluster, reference, pods: pods.store.values() });
        if (ending.signal.aborted) return;
        metrics.beginTerm();
        const controllers = startControllers({ ...options, informers, term, leaseName, historySince, onFailure });
        await whenAborted([ending.signal]).promise;
        const stopped = controllers.stop();
        metrics.endTerm();
        await stopped;
      } finally {
        ending.close();
        // The Lease is given back when this returns: no other operator may take it before that is written.
        await forgotten;
      }
    },
  });

  /** Ends the term, since the caches may be wrong, and passes on that history is unknown. */
  async function leaveHistory(error: unknown): Promise<never> {
    if (error instanceof HistoryError) {
      forgotten = forgetHistory(cluster, { reference }).catch((cause: unknown) =>
        log.error({ error: cause }, "cannot write that history is unknown"),
      );
    }
    trusting.abort();
    await forgotten;
    throw error;
  }

  const followed = done.catch(leaveHistory);
  return {
    synced,
    isReady,
    hasStore: () => hasStore({ config, informers }),
    done: Promise.all([leading, followed])
      .then(() => undefined)
      .finally(trusting.close),
  };
}
