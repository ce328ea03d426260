import type { BuildContexts } from "../crds/builds/build-contexts.ts";
import type { Claim } from "../crds/claim.ts";
import { systemClock } from "../crds/client/clock.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import { createEventRecorder } from "../crds/client/event-recorder.ts";
import type { Exec } from "../crds/client/exec/exec.ts";
import type { ReportHandlerFailure } from "../crds/client/watch/handler-failures.ts";
import { keyAt, keyOf } from "../crds/client/watch/store.ts";
import { claims } from "../crds/kinds.ts";
import type { Log } from "../crds/log.ts";
import type { Tracer } from "../crds/tracing/tracer.ts";
import { createDeferred } from "../crds/waits.ts";
import { createBackgroundWork } from "./background-work.ts";
import { createBuildTurns } from "./builds/build-turns.ts";
import { createClaimTraces } from "./claim/claim-traces.ts";
import { createClaimController } from "./claim/controller.ts";
import { createServiceWatch } from "./claim/service-watch.ts";
import { createTimelines } from "./claim/timeline.ts";
import { createOperatorCluster } from "./cluster/operator-cluster.ts";
import type { OperatorConfig } from "./config.ts";
import type { OperatorContext } from "./context.ts";
import { startWatches } from "./controller.ts";
import type { Informers } from "./informers.ts";
import { fencedClient, NotLeadingError, type Term } from "./leader.ts";
import type { Metrics } from "./metrics.ts";
import { createPodController } from "./pod/controller.ts";
import { createStartExplanations } from "./pod/explain-start.ts";
import { createNodeSilence } from "./pod/node-silence.ts";
import { createProgramRuns } from "./pod/program-runs.ts";
import { createSeenTimes } from "./pod/seen-times.ts";
import { createPoolController, createPoolStatusController } from "./pool/controller.ts";
import { createPoolEvents } from "./pool/pool-events.ts";
import { createFailureRecord } from "./pool/pool-failures.ts";
import { createPoolRefusals } from "./pool/pool-refusals.ts";
import { createPromisedPods } from "./pool/promised-pods.ts";
import { createRefillPause } from "./pool/refill-pause.ts";
import { createQueue } from "./queue.ts";
import { createArchivesController, createHelperController } from "./snapshots/controller.ts";
import type { Snapshots } from "./snapshots/snapshots.ts";
import { createWorkloadController } from "./workload/controller.ts";

// Each is a command in the helper pod that takes some 50 ms.
const LOOKUPS_AT_ONCE = 16;
const FILE_CHECKS_AT_ONCE = 16;

/** Starts the controllers for one term as leader: their queue, what they remember, and their watches. */
export function startControllers(options: {
  client: ClusterClient;
  snapshots: Snapshots;
  contexts: BuildContexts;
  exec?: Exec | undefined;
  config: OperatorConfig;
  informers: Informers;
  metrics: Metrics;
  tracer?: Tracer | undefined;
  log: Log;
  term: Term;
  historySince: string | undefined;
  onFailure: ReportHandlerFailure;
}): { stop(): Promise<void> } {
  const { config, informers, metrics, log, term, onFailure } = options;
  const client = fencedClient(options.client, term);
  const events = createEventRecorder({ client, namespace: config.namespace, component: "tenancy-operator", log });
  const serviceWatch = createServiceWatch({
    client: options.client,
    namespace: config.namespace,
    onFailure,
    log,
    onSynced() {
      for (const claim of informers.claims.store.values()) enqueueClaim(claim);
    },
    onChange({ type, object }) {
      if (type === "added") return;
      for (const { kind, name } of object.metadata.ownerReferences ?? [])
        if (kind === claims.kind) queue.add("claim", keyAt({ namespace: config.namespace, name }));
    },
  });
  const context: OperatorContext = {
    cluster: createOperatorCluster({ client, namespace: config.namespace, informers, serviceWatch }),
    client,
    config,
    informers,
    events,
    metrics,
    log,
    reservedPods: new Set(),
    editedPods: new Map(),
    poolFailures: createFailureRecord({ onChange: enqueuePool }),
    poolRefusals: createPoolRefusals({ onChange: enqueuePool }),
    poolEvents: createPoolEvents({ events }),
    refillPause: createRefillPause(),
    promisedPods: createPromisedPods(),
    snapshots: options.snapshots,
    contexts: options.contexts,
    exec: options.exec,
    startExplanations: createStartExplanations(),
    archiveLookups: createBackgroundWork({ concurrency: LOOKUPS_AT_ONCE, maximumBackoffMs: 10_000 }),
    restores: createBackgroundWork({ concurrency: config.snapshots.concurrency }),
    saves: createBackgroundWork({ concurrency: config.snapshots.concurrency }),
    fileChecks: createBackgroundWork({ concurrency: FILE_CHECKS_AT_ONCE, maximumBackoffMs: 10_000 }),
    ownPods: new Set(),
    seenUses: new Map(),
    nodeSilence: createNodeSilence({ limitMs: config.nodeTimeoutMs }),
    seenTimes: createSeenTimes(),
    programRuns: createProgramRuns(),
    restoreFailures: new Map(),
    notices: new Map(),
    timelines: createTimelines(systemClock.now),
    traces: options.tracer && createClaimTraces(options.tracer, systemClock.now),
    serviceWatch,
    ensuredEgress: new Map(),
    feeds: createBackgroundWork({ concurrency: config.builds?.concurrency ?? 1, maximumBackoffMs: 60_000 }),
    buildTurns: createBuildTurns(),
    helperStart: createHelperStart(),
    onFailure,
    enqueueClaim,
    enqueueWorkload: (name) => queue.add("workload", keyAt({ namespace: config.namespace, name })),
    serverNow: client.transport.now,
    startedAt: performance.now(),
    historySince: options.historySince,
    isLeading: () => term.writeTimeLeftMs() > 0,
  };
  const controllers = [
    createClaimController(context),
    createWorkloadController(context),
    createPoolController(context),
    createPodController(context),
    createHelperController(context),
    createArchivesController(context),
    createPoolStatusController(context),
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
    await Promise.all([
      queue.stop(),
      context.archiveLookups.stop(),
      context.restores.stop(),
      context.saves.stop(),
      context.fileChecks.stop(),
      context.feeds.stop(),
      context.startExplanations.work.stop(),
    ]);
    context.snapshots.close();
    context.serviceWatch.close();
    await events.flush();
  }

  return { stop };
}

function createHelperStart(): OperatorContext["helperStart"] {
  let start = createDeferred<void>();
  return {
    ...{ wanted: undefined, isFailing: false, hasVolume: undefined },
    next: () => start.promise,
    announce() {
      start.resolve();
      start = createDeferred();
    },
  };
}
