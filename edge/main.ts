import { createClusterClient } from "../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../crds/client/config/load-cluster-config.ts";
import { createExec } from "../crds/client/exec/exec.ts";
import { createTransport } from "../crds/client/transport.ts";
import { createLog } from "../crds/log.ts";
import { type OpenedStore, openStore } from "../crds/snapshots/open-store.ts";
import { loadDashboard } from "./api/dashboard.ts";
import { keyWarning, loadConfig } from "./config.ts";
import { chooseServe, startEdge } from "./edge.ts";
import { stopSignal } from "./serve/serve.ts";

/**
 * Longer than a claim call waits, so that none is interrupted; the Deployments' grace periods contain it and the delay.
 */
const GRACE_MS = 35_000;

async function main(): Promise<void> {
  const config = loadConfig(process.env);
  const log = createLog({ program: "edge", level: config.logLevel });
  const warning = keyWarning(config);
  if (warning !== undefined) log.warn({ problem: warning }, "the API key is weak");
  const stop = stopSignal(process);
  const cluster = await loadClusterConfig();
  const transport = createTransport({ config: cluster, role: "edge", log });
  const client = createClusterClient({ transport });
  const exec = createExec({ config: cluster, log });
  let opened: OpenedStore | undefined;
  const store = (): OpenedStore => {
    // The front door alone needs only to know which tenants have files.
    const rights = config.roles.has("api") ? "all" : "names";
    opened ??= openStore(config.store, { client, cluster, namespace: config.namespace, rights, log });
    return opened;
  };
  // Without object storage credentials it can serve none of its calls; other roles do not need the store.
  if (config.roles.has("api")) store();
  const dashboard = config.roles.has("api") ? await loadDashboard(log) : undefined;
  const edge = await startEdge({ config, client, exec, serve: await chooseServe(), store, dashboard, log });
  log.info(
    {
      url: edge.url,
      metricsUrl: edge.metricsUrl,
      proxyUrl: edge.proxyUrl,
      namespace: config.namespace,
      authentication: config.apiKey !== undefined,
    },
    "edge listening",
  );
  // The parent that started this process and holds its channel, such as `npm start`, learns that the server on that
  // address is this one.
  process.send?.({ listening: edge.url });
  edge.synced.then(
    () => log.info({}, "the cluster cache is synced"),
    () => undefined,
  );
  await Promise.race([stop, edge.failed]);
  const { stopDelayMs: delayMs } = config;
  log.info({ delayMs, graceMs: GRACE_MS }, "edge stopping");
  const finished = await edge.stop({ delayMs, graceMs: GRACE_MS });
  opened?.close();
  transport.close();
  log.info({ finished }, "edge stopped");
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    process.stderr.write(`tenancy edge: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  },
);
