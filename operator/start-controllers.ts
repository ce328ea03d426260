import type { BuildContexts } from "../crds/builds/build-contexts.ts";
import type { Claim } from "../crds/claim.ts";
import { leases } from "../crds/client/built-in-resources.ts";
import { steadyClock, systemClock } from "../crds/client/clock.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import { createEventRecorder } from "../crds/client/event-recorder.ts";
import type { Exec } from "../crds/client/exec/exec.ts";
import type { ReportHandlerFailure } from "../crds/client/watch/handler-failures.ts";
import { keyAt, keyOf } from "../crds/client/watch/store.ts";
import { annotation } from "../crds/labels.ts";
import type { Log } from "../crds/log.ts";
import type { EventSink } from "../crds/sink/event-sink.ts";
import type { SnapshotStore } from "../crds/snapshots/snapshot-store.ts";
import type { Tracer } from "../crds/tracing/tracer.ts";
import type { UsageStore } from "../crds/usage/usage-store.ts";
import { createBuildMemory } from "./builds/context.ts";
import { createClaimEvents } from "./claim/claim-events.ts";
import { createClaimMemory, stopClaimWork, watchServices } from "./claim/context.ts";
import { createClaimController } from "./claim/controller.ts";
import type { OperatorConfig } from "./config.ts";
import { startWatches } from "./controller.ts";
import { fencedClient, NotLeadingError, type Term } from "./leader.ts";
import type { Metrics } from "./metrics.ts";
import { createOperatorCluster } from "./operator-cluster.ts";
import { createPodMemory } from "./pod/context.ts";
import { createPoolMemory } from "./pool/context.ts";
import { createPoolController, createPoolStatusController } from "./pool/controller.ts";
import { createPodController } from "./pool/member-controller.ts";
import { createPrepullController } from "./prepull/controller.ts";
import { createQueue } from "./queue.ts";
import { type ReadImageConfig, readImageConfig } from "./registry/read-image-config.ts";
import { createRoomMemory } from "./room/context.ts";
import { createRoomController, ROOM_KEY } from "./room/controller.ts";
import { createSinkController } from "./sink-controller.ts";
import { createHelperStart } from "./snapshots/context.ts";
import { createArchivesController, createHelperController } from "./snapshots/controller.ts";
import { mayHaveArchives } from "./snapshots/has-store.ts";
import type { Snapshots } from "./snapshots/snapshots.ts";
import type { WholeContext } from "./start-caches.ts";
import { createUsageController } from "./usage/controller.ts";
import { createStorageRecorder } from "./usage/record-storage.ts";
import { createStorageController } from "./usage/storage-controller.ts";
import { createUsageEvents } from "./usage/usage-events.ts";
import { createUsageRecorder } from "./usage/usage-recorder.ts";
import { createWorkloadMemory } from "./workload/context.ts";
import { createWorkloadController } from "./workload/controller.ts";

/** Starts the controllers for one term as leader: their queue, their memory, and their watches. */
export function startControllers(options: {
  client: ClusterClient;
  snapshots: Snapshots;
  contexts: BuildContexts;
  usage?: UsageStore | undefined;
  sink?: EventSink | undefined;
  archives?: Pick<SnapshotStore, "list" | "names"> | undefined;
  readImageConfig?: ReadImageConfig | undefined;
  exec?: Exec | undefined;
  config: OperatorConfig;
  informers: WholeContext["informers"];
  metrics: Metrics;
  tracer?: Tracer | undefined;
  log: Log;
  term: Term;
  leaseName: string;
  historySince: string | undefined;
  onFailure: ReportHandlerFailure;
}): { stop(): Promise<void> } {
  const { config, informers, metrics, log, term, onFailure } = options;
  const client = fencedClient(options.client, term);
  const events = createEventRecorder({ client, namespace: config.namespace, component: "tenancy-operator", log });
  const serviceWatch = watchServices({
    client: options.client,
    context: { config, informers, log, onFailure, enqueueClaim },
    enqueue: (key) => queue.add("claim", key),
  });
  const ground = {
    cluster: createOperatorCluster({ client, namespace: config.namespace, informers, serviceWatch }),
    ...{ client, config, informers, events, metrics, log, onFailure, exec: options.exec },
    serverNow: client.transport.now,
    startedAt: performance.now(),
    historySince: options.historySince,
    isLeading: () => term.writeTimeLeftMs() > 0,
  };
  const { sink } = options;
  const usageEvents =
    options.usage !== undefined && sink?.wants("usage") === true
      ? createUsageEvents({
          ...{ sink, store: options.usage, now: systemClock.now },
          mayHaveStore: () => mayHaveArchives(context),
        })
      : undefined;
  const claimEvents =
    sink &&
    createClaimEvents({
      ...{ sink, log, claims: () => informers.claims.store.values() },
      since: term.annotations[annotation.eventsSentUntil],
      async note(until) {
        const lease = ground.cluster(leases).named(options.leaseName);
        await lease.patch({ metadata: { annotations: { [annotation.eventsSentUntil]: until } } });
      },
    });
  const usageStore = usageEvents?.store ?? options.usage;
  const usage =
    usageStore &&
    createUsageRecorder({
      store: usageStore,
      mayHaveStore: () => mayHaveArchives(context),
      claims: () => informers.claims.store.values(),
      onRecorded: enqueueClaim,
      retryLimitMs: config.snapshots.retryLimitMs,
      serverNow: ground.serverNow,
      count: (result, records) => metrics.usageRecords.inc({ result }, records),
      log,
    });
  const context: WholeContext = {
    ...ground,
    ...createPodMemory(config),
    ...createPoolMemory({ events, onChange: enqueuePool }),
    ...createRoomMemory({ onChange: () => queue.add("room", ROOM_KEY) }),
    ...createBuildMemory(config),
    ...createClaimMemory(options),
    ...(usage && { usage }),
    claimEvents,
    ...{ snapshots: options.snapshots, helperStart: createHelperStart(), contexts: options.contexts },
    ...createWorkloadMemory(),
    ...{ pullPlans: new Map(), clock: steadyClock },
    readImageConfig: options.readImageConfig ?? readImageConfig,
    serviceWatch,
    enqueueClaim,
    enqueueWorkload: (name) => queue.add("workload", keyAt({ namespace: config.namespace, name })),
  };
  const storage =
    usageStore &&
    options.archives &&
    createStorageRecorder({
      ...{ usage: usageStore, archives: options.archives, isLeading: ground.isLeading },
      mayHaveStore: () => mayHaveArchives(context),
    });
  const controllers = [
    createClaimController(context),
    createWorkloadController(context),
    createRoomController(context),
    createPoolController(context),
    createPodController(context),
    createPrepullController(context),
    createHelperController(context),
    createArchivesController(context),
    createPoolStatusController(context),
    createUsageController(context),
    createStorageController(context, storage),
    createSinkController({ claims: claimEvents, usage: usageEvents }),
  ];
  const queue = createQueue({
    controllers,
    log,
    onReconciled: ({ controller, outcome, seconds }) =>
      metrics.reconcileSeconds.observe({ controller, outcome }, seconds),
    isWorthLogging: (error) => !(error instanceof NotLeadingError),
  });
  const stopWatches = startWatches(controllers, queue);

  function enqueueClaim(claim: Claim): void {
    queue.add("claim", keyOf(claim));
  }

  function enqueuePool(name: string): void {
    const key = keyAt({ namespace: config.namespace, name });
    queue.add("pool", key);
    queue.add("poolStatus", key);
  }

  async function stop(): Promise<void> {
    stopWatches();
    const { launcherEnds, feeds, imageReads } = context;
    await Promise.all([
      queue.stop(),
      context.usage.stop(),
      stopClaimWork(context),
      launcherEnds.stop(),
      feeds.stop(),
      imageReads.stop(),
    ]);
    context.snapshots.close();
    context.serviceWatch.close();
    await events.flush();
  }

  return { stop };
}
