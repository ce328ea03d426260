// The operator: reconciles the four kinds into pods and network policies. Configuration: environment variables, see
// docs/configuration.md.
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { createClusterClient } from "../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../crds/client/config/load-cluster-config.ts";
import { createExec } from "../crds/client/exec/exec.ts";
import { createTransport } from "../crds/client/transport.ts";
import { createLog } from "../crds/log.ts";
import { operatorConfig } from "./config.ts";
import { createMetrics } from "./metrics.ts";
import { serveHealth } from "./serve-health.ts";
import { createSnapshots } from "./snapshots/snapshots.ts";
import { createVolumeMark } from "./snapshots/volume-mark.ts";
import { startOperator } from "./start-operator.ts";

// A stop that takes longer is cut: the next leader finishes whatever was left.
const STOP_LIMIT_MS = 20_000;

async function main(): Promise<void> {
  const config = operatorConfig(process.env);
  const log = createLog({ program: "operator", level: config.logLevel });
  const metrics = createMetrics();
  const cluster = await loadClusterConfig({ env: process.env });
  const transport = createTransport({
    config: cluster,
    role: "operator",
    onRequest: ({ verb, resource, status }) => metrics.apiRequests.inc({ verb, resource, status: String(status) }),
  });
  const stopping = new AbortController();
  const client = createClusterClient({ transport });
  const { namespace } = config;
  const exec = createExec({ config: cluster, log });
  const operator = startOperator({
    client,
    snapshots: createSnapshots({
      exec,
      namespace,
      timeoutMs: config.snapshots.timeoutMs,
      room: { maxArchiveBytes: config.snapshots.maxArchiveBytes, volumeBytes: config.snapshots.sizeBytes },
      mark: createVolumeMark({ client, namespace }),
      log,
    }),
    exec,
    config,
    metrics,
    log,
    identity: `${hostname()}_${process.pid}_${randomBytes(4).toString("hex")}`,
    signal: stopping.signal,
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
  await health?.stop();
  transport.close();
  log.info({}, "operator stopped");
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exit(1);
});
