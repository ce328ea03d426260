import type { Browser } from "playwright-core";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../crds/client/config/load-cluster-config.ts";
import { createExec } from "../../crds/client/exec/exec.ts";
import { openStore } from "../../crds/snapshots/open-store.ts";
import { loadDashboard } from "../../edge/api/dashboard.ts";
import { loadConfig } from "../../edge/config.ts";
import { type Edge, startEdge as startEdgeInProcess } from "../../edge/edge.ts";
import { serveNode } from "../../edge/serve/node.ts";
import { startTenancy, type Tenancy } from "../cluster/tenancy.ts";
import { type EdgeProcess, startReadyEdge } from "../unit/edge/edge-process.ts";
import { silentLog } from "../unit/silent-log.ts";
import { launchBrowser } from "./browser.ts";

/** What a person has who opens the dashboard: a cluster with an operator and an edge, and a browser. */
export interface Stage {
  readonly tenancy: Tenancy;
  readonly edge: EdgeProcess;
  readonly browser: Browser;
  /** Another edge on the same cluster. */
  startEdge(env?: Record<string, string>): Promise<EdgeProcess>;
  /** Another one in this process, of the role api, with what no variable of the environment sets. */
  startEdgeHere(options: { env?: Record<string, string>; client?: ClusterClient; sessionMs?: number }): Promise<Edge>;
  stop(): Promise<void>;
}

export const KEY = "browser-test-key-0123456789abcdef";
let shared: Promise<Stage> | undefined;

/** As `startStage`, once for all suites of a file; the last of them stops it. */
export function sharedStage(...given: Parameters<typeof startStage>): Promise<Stage> {
  shared ??= startStage(...given);
  return shared;
}

/** The one of a file, whose edge asks for a key. */
export function sharedKeyedStage(): Promise<Stage> {
  return sharedStage("browser-keyed", { env: { TENANCY_API_KEY: KEY, TENANCY_WS_REQUIRE_KEY: "true" } });
}

/**
 * Starts a control plane with simulated nodes, an operator, the edge on Bun, and a browser.
 *
 * @param options.env of the edge
 */
export async function startStage(
  name: string,
  options: { env?: Record<string, string>; tenancy?: Parameters<typeof startTenancy>[1] } = {},
): Promise<Stage> {
  const [tenancy, browser] = await Promise.all([startTenancy(name, options.tenancy), launchBrowser()]);
  const edges = new Set<EdgeProcess>();
  const edgesHere = new Set<Edge>();
  async function startEdge(env: Record<string, string> = {}): Promise<EdgeProcess> {
    const edge = await startReadyEdge("bun", { KUBECONFIG: tenancy.cluster.kubeconfigPath, ...env });
    edges.add(edge);
    return edge;
  }
  const operator = tenancy.startOperator();
  await operator.synced;
  return {
    tenancy,
    browser,
    edge: await startEdge(options.env),
    startEdge,
    async startEdgeHere({ env = {}, client = tenancy.client, ...more }) {
      const config = loadConfig({
        ...{ TENANCY_LISTEN: "127.0.0.1:0", TENANCY_EDGE_METRICS_LISTEN: "off", TENANCY_EDGE_ROLES: "api" },
        ...env,
      });
      const dashboard = await loadDashboard(silentLog);
      const cluster = await loadClusterConfig({ kubeconfigPath: tenancy.cluster.kubeconfigPath });
      const started = await startEdgeInProcess({
        config,
        client,
        exec: createExec({ config: cluster }),
        dashboard,
        serve: serveNode,
        store: () => openStore(config.store, { client, cluster, namespace: config.namespace }),
        log: silentLog,
        ...more,
      });
      edgesHere.add(started);
      await started.synced;
      return started;
    },
    async stop() {
      await browser.close();
      for (const started of edgesHere) await started.stop({ graceMs: 0 });
      for (const { child, exited } of edges) {
        child.kill("SIGTERM");
        await exited;
      }
      await tenancy.stop();
    },
  };
}
