import type { BuildContexts } from "../crds/builds/build-contexts.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import type { Exec } from "../crds/client/exec/exec.ts";
import { createHandlerFailures } from "../crds/client/watch/handler-failures.ts";
import type { Log } from "../crds/log.ts";
import type { Tracer } from "../crds/tracing/tracer.ts";
import { linkSignals, whenAborted } from "../crds/waits.ts";
import { failedSaveSince } from "./claim/claim-status.ts";
import type { OperatorConfig } from "./config.ts";
import { startInformers } from "./informers.ts";
import { runWhenLeading } from "./leader.ts";
import type { Metrics } from "./metrics.ts";
import { hasStore } from "./snapshots/has-store.ts";
import type { Snapshots } from "./snapshots/snapshots.ts";
import { startControllers } from "./start-controllers.ts";

const LEASE_NAME = "tenancy-operator";

export interface OperatorOptions {
  client: ClusterClient;
  snapshots: Snapshots;
  contexts: BuildContexts;
  /** Asks pods that do not become ready where they listen. @default they are not asked */
  exec?: Exec | undefined;
  config: OperatorConfig;
  metrics: Metrics;
  /** @default nothing is traced */
  tracer?: Tracer | undefined;
  log: Log;
  /** Unique to this process. */
  identity: string;
  /** @default "tenancy-operator" */
  leaseName?: string;
  /** Aborted for a clean stop. */
  signal: AbortSignal;
}

export interface Operator {
  /** Resolves when every store holds what the cluster has, and follows it. */
  synced: Promise<void>;
  /** Whether every watch is open. */
  isReady(): boolean;
  /** Whether archives can be there at all. */
  hasStore(): boolean;
  /** Resolves after a clean stop. */
  done: Promise<void>;
}

/** Watches the cluster from the start, leading or not, so that a new leader goes to work at once. */
export function startOperator(options: OperatorOptions): Operator {
  const { client, config, metrics, log, signal } = options;
  const onFailure = createHandlerFailures({
    log,
    count: ({ resource }) => metrics.handlerFailures.inc({ resource }),
  });
  const { informers, synced, isReady, untilReady, done } = startInformers({ client, config, onFailure, log, signal });

  const { pools, pods, claims } = informers;
  metrics.followCaches({
    isReady,
    *pools() {
      for (const { metadata, spec } of pools.store.values())
        yield { name: metadata.name, ready: pods.store.by("pool", `${metadata.name}/ready`).size, desired: spec.size };
    },
    *failedReleases() {
      for (const claim of claims.store.by("needsHelper", "")) {
        const since = failedSaveSince(claim);
        if (since !== undefined) yield since;
      }
    },
  });

  const leading = runWhenLeading({
    client,
    namespace: config.namespace,
    leaseName: options.leaseName ?? LEASE_NAME,
    identity: options.identity,
    leaseMs: config.leaseMs,
    log,
    signal,
    async lead(term) {
      const ending = linkSignals(term.signal, signal);
      try {
        // A watch ends now and then; a term that began without one would take what it does not show for gone.
        await untilReady(ending.signal);
        if (ending.signal.aborted) return;
        metrics.beginTerm();
        const controllers = startControllers({ ...options, informers, term, onFailure });
        await whenAborted([ending.signal]).promise;
        const stopped = controllers.stop();
        metrics.endTerm();
        await stopped;
      } finally {
        ending.close();
      }
    },
  });

  return {
    synced,
    isReady,
    hasStore: () => hasStore({ config, informers }),
    done: Promise.all([leading, done]).then(() => undefined),
  };
}
