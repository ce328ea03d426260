import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { readClusterState, withClusterLock } from "./cluster-state.ts";
import { clusterFolder, clustersFolder, DEFAULT_CLUSTER } from "./folders.ts";
import { containerdSocket } from "./images.ts";
import { type Log, silent } from "./log.ts";
import { removeControlGroup } from "./node/control-groups.ts";
import { restoreHost, withHostLock } from "./node/host-changes.ts";
import { removeBridge } from "./node/network.ts";
import { stopShims } from "./node/start-containerd.ts";
import { clusterControlGroup } from "./node/start-kubelet.ts";
import { removeHostRules } from "./policies/host-rules.ts";
import { stopProcess, stopRecorded } from "./process/stop-process.ts";
import { slotOf } from "./slot.ts";

export interface DownLocalClusterOptions {
  /** @default tenancy */
  name?: string;
  log?: Log;
}

/**
 * Stops a complete cluster or a control plane, and removes everything that it has created. Does nothing if there is
 * none.
 *
 * @throws Error if something does not end or cannot be removed
 */
export async function downLocalCluster({
  name = DEFAULT_CLUSTER,
  log = silent,
}: DownLocalClusterOptions = {}): Promise<void> {
  clusterFolder(name);
  await withClusterLock(name, () => removeLocalCluster(name, log));
}

/**
 * Stops exactly what a cluster has started and removes what it has made; returns whether there was one.
 *
 * @throws Error when something does not end or cannot be removed
 */
export async function removeLocalCluster(name: string, log: Log = silent): Promise<boolean> {
  const folder = clusterFolder(name);
  const state = readClusterState(folder);
  if (state === undefined) {
    rmSync(folder, { recursive: true, force: true });
    return false;
  }
  log(`stopping the cluster "${name}"`);
  if (state.kind === "complete") {
    // The kubelet is stopped first, since it would restart the containers. Then the containers' processes are stopped,
    // so that containerd sees their end and cleans up. containerd is stopped last.
    for (const process of state.processes.toReversed()) {
      if (process.name !== "containerd") await stopProcess(process.identity, { name: process.name, graceMs: 0 });
    }
    await removeControlGroup(clusterControlGroup(name));
    await stopShims(containerdSocket(folder));
  }
  await stopRecorded(folder, 0);
  await withHostLock(clustersFolder(), async () => {
    if (state.slot !== undefined) {
      await removeHostRules(slotOf(state.slot), { folder });
      await removeBridge(slotOf(state.slot));
    }
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
    if (state.kind === "complete" && !otherCompleteClusters()) await restoreHost(clustersFolder());
  });
  return true;
}

function otherCompleteClusters(): boolean {
  const clusters = clustersFolder();
  if (!existsSync(clusters)) return false;
  return readdirSync(clusters, { withFileTypes: true }).some(
    (entry) => entry.isDirectory() && readClusterState(join(clusters, entry.name))?.kind === "complete",
  );
}
