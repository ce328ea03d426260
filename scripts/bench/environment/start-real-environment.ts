import { join } from "node:path";
import { readClusterState } from "../../cluster/cluster-state.ts";
import { downLocalCluster } from "../../cluster/down-local-cluster.ts";
import { clusterFolder } from "../../cluster/folders.ts";
import { TOOLS_IMAGE } from "../../cluster/images/local-images.ts";
import type { Log } from "../../cluster/log.ts";
import { upLocalCluster } from "../../cluster/up-local-cluster.ts";
import { localSnapshots } from "../../start/local-snapshots.ts";
import { type BenchEnvironment, NAMESPACE, startEnvironment } from "./start-environment.ts";

const CLUSTER = "bench-real";
const root = join(import.meta.dirname, "..", "..", "..");

/**
 * Starts a separate local cluster whose pods are containers, with operator and edge.
 *
 * @throws Error if the user is not root, which containers need
 */
export async function startRealEnvironment(options: {
  bundle: string;
  profileFolder?: string | undefined;
  log: Log;
  signal: AbortSignal;
}): Promise<BenchEnvironment> {
  const { bundle, profileFolder, log, signal } = options;
  const down = () => downLocalCluster({ name: CLUSTER, log });
  const { version, kubeconfigPath, volumesFolder } = await upLocalCluster({ name: CLUSTER, log });
  try {
    const snapshots = await localSnapshots({ cluster: { name: CLUSTER, volumesFolder }, root });
    signal.throwIfAborted();
    const environment = await startEnvironment({
      version,
      kubeconfigPath,
      clusterProcesses: () =>
        Object.fromEntries(
          (readClusterState(clusterFolder(CLUSTER))?.processes ?? []).map(({ name, identity }) => [name, identity]),
        ),
      bundle,
      operatorSettings: {
        // The node has this machine's cores, and warm pods that idle should not fill it.
        TENANCY_CPU_OVERCOMMIT: "20",
        ...snapshots.environment,
        TENANCY_TOOLS_IMAGE: TOOLS_IMAGE,
      },
      profileFolder,
      signal,
    });
    const { client } = environment;
    await snapshots.make({ client, namespace: NAMESPACE, signal });
    return { ...environment, stop: () => environment.stop().finally(down) };
  } catch (error) {
    await down();
    throw error;
  }
}
