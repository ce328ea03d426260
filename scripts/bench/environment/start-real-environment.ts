import { readClusterState } from "../../cluster/cluster-state.ts";
import { downLocalCluster } from "../../cluster/down-local-cluster.ts";
import { clusterFolder } from "../../cluster/folders.ts";
import { BUSYBOX_IMAGE } from "../../cluster/images/local-images.ts";
import type { Log } from "../../cluster/log.ts";
import { upLocalCluster } from "../../cluster/up-local-cluster.ts";
import { makeSnapshotsVolume } from "../../start/snapshots-volume.ts";
import { type BenchEnvironment, NAMESPACE, startEnvironment } from "./start-environment.ts";

const CLUSTER = "bench-real";

/**
 * Brings up a local cluster of the bench's own, whose pods are containers, with operator and edge on it.
 *
 * @throws Error when not root, as containers take
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
        TENANCY_SNAPSHOT_STORAGE_CLASS: "",
        TENANCY_TOOLS_IMAGE: BUSYBOX_IMAGE,
      },
      profileFolder,
      signal,
    });
    const { client } = environment;
    await makeSnapshotsVolume({ client, namespace: NAMESPACE, folder: volumesFolder, size: "10Gi", signal });
    return { ...environment, stop: () => environment.stop().finally(down) };
  } catch (error) {
    await down();
    throw error;
  }
}
