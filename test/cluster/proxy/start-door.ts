import { type ClusterClient, createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createExec } from "../../../crds/client/exec/exec.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import { openStore } from "../../../crds/snapshots/open-store.ts";
import { loadConfig } from "../../../edge/config.ts";
import { type Edge, startEdge } from "../../../edge/edge.ts";
import { serveNode } from "../../../edge/serve/node.ts";
import type { Serve } from "../../../edge/serve/serve.ts";
import { silentLog } from "../../unit/silent-log.ts";

/** Starts an edge with a front door in this process, with whatever `wrap` puts between it and the API server. */
export async function startDoor(options: {
  kubeconfigPath: string;
  apiKey: string;
  wrap?: (client: ClusterClient) => ClusterClient;
  /** @default Node's, without a listener for metrics and probes */
  serve?: Serve;
}): Promise<{ door: Edge; stop: () => Promise<void> }> {
  const { kubeconfigPath, apiKey, wrap = (client) => client, serve } = options;
  const cluster = await loadClusterConfig({ kubeconfigPath });
  const transport = createTransport({ config: cluster, role: "edge" });
  const config = loadConfig({
    TENANCY_API_KEY: apiKey,
    TENANCY_EDGE_ROLES: "api,proxy",
    TENANCY_LISTEN: "127.0.0.1:0",
    TENANCY_PROXY_LISTEN: "127.0.0.1:0",
    TENANCY_EDGE_METRICS_LISTEN: serve === undefined ? "off" : "127.0.0.1:0",
    TENANCY_PROXY_WAIT: "30",
  });
  const client = wrap(createClusterClient({ transport }));
  const exec = createExec({ config: cluster });
  const store = () => openStore(config.store, { client, cluster, namespace: config.namespace });
  const door = await startEdge({ config, client, exec, serve: serve ?? serveNode, store, log: silentLog });
  await door.synced;
  return {
    door,
    async stop() {
      await door.stop({ graceMs: 0 });
      transport.close();
    },
  };
}
