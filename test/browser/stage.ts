import type { Browser } from "playwright-core";
import { startTenancy, type Tenancy } from "../cluster/tenancy.ts";
import { type EdgeProcess, startReadyEdge } from "../unit/edge/edge-process.ts";
import { launchBrowser } from "./browser.ts";

/** What a person has who opens the dashboard: a cluster with an operator and an edge, and a browser. */
export interface Stage {
  readonly tenancy: Tenancy;
  readonly edge: EdgeProcess;
  readonly browser: Browser;
  /** Another edge on the same cluster. */
  startEdge(env?: Record<string, string>): Promise<EdgeProcess>;
  stop(): Promise<void>;
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
    async stop() {
      await browser.close();
      for (const { child, exited } of edges) {
        child.kill("SIGTERM");
        await exited;
      }
      await tenancy.stop();
    },
  };
}
