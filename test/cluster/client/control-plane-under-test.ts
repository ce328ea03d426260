import { namespaces } from "../../../crds/client/built-in-resources.ts";
import { type ClusterClient, createClusterClient } from "../../../crds/client/cluster-client.ts";
import type { ClusterConfig } from "../../../crds/client/config/cluster-config.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createTransport, type Transport } from "../../../crds/client/transport.ts";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { type ControlPlane, startControlPlane } from "../../../scripts/cluster/control-plane.ts";
import { startTcpProxy, type TcpProxy } from "../../../scripts/cluster/process/tcp-proxy.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";

export const namespace = "client-test";

export interface ControlPlaneUnderTest {
  readonly cluster: ControlPlane;
  /** Reaches the API server directly, as its administrator. */
  readonly config: ClusterConfig;
  readonly client: ClusterClient;
  /** Reaches the same through the proxy. */
  readonly proxied: ClusterClient;
  readonly proxy: TcpProxy;
  /** A client that is closed with the rest. */
  connect(config: ClusterConfig): ClusterClient;
  stop(): Promise<void>;
}

/** A real API server, a client beside it, and one behind a network that can be made to fail. */
async function startControlPlaneUnderTest(name: string): Promise<ControlPlaneUnderTest> {
  const binaries = await findBinaries({ need: CONTROL_PLANE_PROGRAMS });
  // Runs on two runtimes may come at the same time.
  const cluster = await startControlPlane({ name: `${name}-${process.pid}`, binaries });
  console.log(`note: ${name} against Kubernetes ${cluster.version}`);
  const config = await loadClusterConfig({ kubeconfigPath: cluster.kubeconfigPath });
  const proxy = await startTcpProxy({ port: Number(new URL(cluster.server).port) });
  const transports: Transport[] = [];

  function connect(to: ClusterConfig): ClusterClient {
    const transport = createTransport({ config: to, role: "test" });
    transports.push(transport);
    return createClusterClient({ transport });
  }

  const client = connect(config);
  await client.create(namespaces, { metadata: { name: namespace } });
  return {
    cluster,
    config,
    client,
    proxied: connect({ ...config, server: `https://127.0.0.1:${proxy.port}` }),
    proxy,
    connect,
    async stop() {
      for (const transport of transports) transport.close();
      await proxy.close();
      await cluster.stop();
    },
  };
}

let started: Promise<ControlPlaneUnderTest> | undefined;

/** The one that the suites of a file share; the last of them stops it. */
export function sharedPlane(): Promise<ControlPlaneUnderTest> {
  started ??= startControlPlaneUnderTest("client");
  return started;
}

export function until(what: string, check: () => boolean | Promise<boolean>): Promise<boolean> {
  return waitUntil(check, { what, limitMs: 60_000, intervalMs: 5 });
}
