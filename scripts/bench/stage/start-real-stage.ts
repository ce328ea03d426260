import { readClusterState } from "../../cluster/cluster-state.ts";
import { downLocalCluster } from "../../cluster/down-local-cluster.ts";
import { clusterFolder } from "../../cluster/folders.ts";
import type { Log } from "../../cluster/log.ts";
import { upLocalCluster } from "../../cluster/up-local-cluster.ts";
import type { Stage } from "./stage.ts";
import { startStage } from "./start-stage.ts";

const CLUSTER = "bench-real";

/**
 * Brings up a local cluster of the bench's own, whose pods are containers, with operator and edge on it.
 *
 * @throws Error when not root, as containers take
 */
export async function startRealStage(options: {
  bundle: string;
  profileFolder?: string | undefined;
  log: Log;
  signal: AbortSignal;
}): Promise<Stage> {
  const { bundle, profileFolder, log, signal } = options;
  const down = () => downLocalCluster({ name: CLUSTER, log });
  const { version, kubeconfigPath } = await upLocalCluster({ name: CLUSTER, log });
  try {
    signal.throwIfAborted();
    const stage = await startStage({
      version,
      kubeconfigPath,
      clusterProcesses: () =>
        Object.fromEntries(
          (readClusterState(clusterFolder(CLUSTER))?.processes ?? []).map(({ name, identity }) => [name, identity]),
        ),
      bundle,
      profileFolder,
      signal,
    });
    return { ...stage, stop: () => stage.stop().finally(down) };
  } catch (error) {
    await down();
    throw error;
  }
}
