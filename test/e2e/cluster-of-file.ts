import { downLocalCluster } from "../../scripts/cluster/down-local-cluster.ts";
import { SHARED_LOCAL_CLUSTER } from "../../scripts/test/shared-local-clusters.ts";

const lent = process.env[SHARED_LOCAL_CLUSTER];

/**
 * Returns the name of the local cluster that the test runner lends to this file, which is up; of one to bring up where
 * the file says `// @own-cluster` or runs without the runner.
 */
export function clusterOfFile(name: string): string {
  return lent ?? name;
}

/** Takes the file's own cluster down; one that is lent is the runner's to clean. */
export async function leaveCluster(name: string): Promise<void> {
  if (name !== lent) await downLocalCluster({ name });
}
