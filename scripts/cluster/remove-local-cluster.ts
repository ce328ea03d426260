import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { readClusterState } from "./cluster-state.ts";
import { removeControlGroup } from "./control-groups.ts";
import { clusterFolder, clustersFolder } from "./folders.ts";
import { restoreHost, withHostLock } from "./host-changes.ts";
import { containerdSocket } from "./images.ts";
import { type Log, silent } from "./log.ts";
import { removeBridge } from "./network.ts";
import { clusterControlGroup } from "./node/start-kubelet.ts";
import { stopShims } from "./node/stop-shims.ts";
import { removeHostRules } from "./policies/host-rules.ts";
import { stopProcess } from "./process/stop-process.ts";
import { slotOf } from "./slot.ts";
import { stopRecorded } from "./stop-recorded.ts";

/**
 * Stops exactly what a cluster has started and removes what it has made; tells whether there was one.
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
    // The kubelet first, since it would start anew what ends; then what runs in the containers, so that containerd sees
    // them end and puts everything away; and containerd last.
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
