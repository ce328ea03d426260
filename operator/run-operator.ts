import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { createClusterClient } from "../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../crds/client/config/load-cluster-config.ts";
import { createExec } from "../crds/client/exec/exec.ts";
import { createTransport } from "../crds/client/transport.ts";
import { createLog, type Log } from "../crds/log.ts";
import { openSink } from "../crds/sink/event-sink.ts";
import { type OpenedStore, openStore } from "../crds/snapshots/open-store.ts";
import { StoreError } from "../crds/snapshots/snapshot-store.ts";
import { startTracing } from "../crds/tracing/start-tracing.ts";
import { operatorConfig } from "./config.ts";
import { createMetrics } from "./metrics.ts";
import { serveHealth } from "./serve-health.ts";
import { createSnapshots } from "./snapshots/snapshots.ts";
import { startOperator } from "./start-operator.ts";

// After this time, the process exits: the next leader finishes the rest.
const STOP_LIMIT_MS = 20_000;
const CHECK_LIMIT_MS = 30_000;
/** A scrape waits for it. */
const SCRAPE_LIMIT_MS = 5000;

/** The operator's process, from its start to its end. */
export async function runOperator(): Promise<void> {
  const config = operatorConfig(process.env);
  const log = createLog({ program: "operator", level: config.logLevel });
  const metrics = createMetrics();
  const cluster = await loadClusterConfig({ env: process.env });
  const transport = createTransport({
    config: cluster,
    role: "operator",
    onRequest: ({ verb, resource, status }) => metrics.apiRequests.inc({ verb, resource, status: String(status) }),
  });
  // Before anything runs, since it throws for a folder that cannot be written to.
  const sink = config.sink && (await openSink(config.sink, { registry: metrics.registry, log }));
  const stopping = new AbortController();
  const client = createClusterClient({ transport });
  const { namespace } = config;
  const exec = createExec({ config: cluster, log });
  const { store } = config.snapshots;
  const opened = openStore(store, { client, cluster, namespace, log });
  await checkStore(opened, { log, signal: stopping.signal });
  const { archives, contexts, mark } = opened;
  const tracing = config.tracing && startTracing({ config: config.tracing, registry: metrics.registry, log });
  const operator = startOperator({
    client,
    snapshots: createSnapshots({
      ...{ exec, archives, mark, most: store.most, namespace, log },
      timeoutMs: config.snapshots.timeoutMs,
      room: { maxArchiveBytes: config.snapshots.maxArchiveBytes, volumeBytes: config.snapshots.sizeBytes },
    }),
    contexts,
    usage: config.usage ? opened.usage : undefined,
    sink,
    archives,
    exec,
    config,
    metrics,
    tracer: tracing?.tracer,
    log,
    identity: `${hostname()}_${process.pid}_${randomBytes(4).toString("hex")}`,
    signal: stopping.signal,
  });
  let hadStore = false;
  metrics.followStore(async () => {
    // If the helper pod is gone, the store counts as unreachable.
    hadStore ||= operator.hasStore();
    if (!hadStore) return undefined;
    const call = { signal: stopping.signal, timeoutMs: SCRAPE_LIMIT_MS };
    try {
      const [usage, space] = await Promise.all([archives.usage(call), archives.space(call)]);
      return { isReachable: true, usage, space, workloadLimitBytes: store.most.workloadBytes };
    } catch (error) {
      log.debug({ error }, "cannot read the usage of the archives");
      return { isReachable: false };
    }
  });
  const health = config.listen && (await serveHealth({ listen: config.listen, metrics, isReady: operator.isReady }));
  log.info({ namespace, metrics: health?.url }, "operator started");

  const stop = (signal: NodeJS.Signals) => {
    if (stopping.signal.aborted) process.exit(1);
    log.info({ signal }, "stopping");
    stopping.abort();
    setTimeout(() => {
      log.error({ limitMs: STOP_LIMIT_MS }, "stop took too long");
      process.exit(1);
    }, STOP_LIMIT_MS).unref();
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);

  await operator.done;
  await Promise.all([tracing?.close(), sink?.close()]);
  await health?.stop();
  opened.close();
  transport.close();
  log.info({}, "operator stopped");
}

/**
 * Fails the start if archives cannot be stored. If the store does not answer, the operator starts: it may answer later.
 *
 * @throws StoreError with what is missing
 */
async function checkStore(store: OpenedStore, { log, signal }: { log: Log; signal: AbortSignal }): Promise<void> {
  try {
    await store.check({ signal, timeoutMs: CHECK_LIMIT_MS });
  } catch (error) {
    if (error instanceof StoreError && !error.isTransient) throw error;
    log.warn({ error }, "cannot find out whether archives can be kept; saves and restores wait");
  }
}
