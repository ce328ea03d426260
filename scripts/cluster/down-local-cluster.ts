import { withClusterLock } from "./cluster-lock.ts";
import { clusterFolder, DEFAULT_CLUSTER } from "./folders.ts";
import { type Log, silent } from "./log.ts";
import { removeLocalCluster } from "./remove-local-cluster.ts";

export interface DownLocalClusterOptions {
  /** @default tenancy */
  name?: string;
  log?: Log;
}

/**
 * Stops a cluster, complete or a control plane alone, and removes all that it has made; does nothing when there is none.
 *
 * @throws Error when something does not end or cannot be removed
 */
export async function downLocalCluster({
  name = DEFAULT_CLUSTER,
  log = silent,
}: DownLocalClusterOptions = {}): Promise<void> {
  clusterFolder(name);
  await withClusterLock(name, () => removeLocalCluster(name, log));
}
