import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { findProcess } from "../cluster/cluster-state.ts";
import { downLocalCluster } from "../cluster/down-local-cluster.ts";
import { clusterFolder } from "../cluster/folders.ts";
import { killControlGroup } from "../cluster/node/control-groups.ts";
import { inMountNamespaceOf } from "../cluster/node/mount-namespace.ts";
import { addressesFolder } from "../cluster/node/start-containerd.ts";
import { clusterControlGroup } from "../cluster/node/start-kubelet.ts";
import { runCommand } from "../cluster/process/run-command.ts";
import { waitUntil } from "../cluster/process/wait-until.ts";
import { upLocalCluster } from "../cluster/up-local-cluster.ts";
import type { Lendable } from "./lending.ts";
import { noteContent } from "./reset-control-plane.ts";
import { installKindsIn } from "./shared-control-planes.ts";

/** The variable with the name of the local cluster that a test file uses. */
export const SHARED_LOCAL_CLUSTER = "TENANCY_SHARED_LOCAL_CLUSTER";

const LIMIT_MS = 90_000;

/** Starts a local cluster that test files can share, with the kinds and the namespace `tenancy`. */
export async function startSharedLocalCluster(number: number): Promise<Lendable> {
  const name = `shared-${process.pid}-${number}`;
  const { kubeconfigPath, volumesFolder } = await upLocalCluster({ name });
  try {
    await installKindsIn(kubeconfigPath);
    const content = await noteContent(kubeconfigPath, { hasControllers: true });
    return {
      environment: { [SHARED_LOCAL_CLUSTER]: name },
      async reset() {
        await content.reset();
        await endPods(name);
        await emptyVolumes(name, volumesFolder);
        // Objects that the end of the pods has created, such as Events.
        await content.reset();
      },
      async end() {
        content.close();
        await downLocalCluster({ name });
      },
    };
  } catch (error) {
    await downLocalCluster({ name });
    throw error;
  }
}

/** Kills containers that belong to no pod any more, and waits until the node has released their addresses. */
async function endPods(name: string): Promise<void> {
  const addresses = addressesFolder(clusterFolder(name));
  await waitUntil(
    () =>
      killControlGroup(clusterControlGroup(name)) === 0 &&
      readdirSync(addresses).every((file) => !/^[\d.]+$/.test(file)),
    { what: `the pods of ${name} to end`, limitMs: LIMIT_MS, intervalMs: 50 },
  );
}

/** Removes the files on the volumes, and what was mounted over them. */
async function emptyVolumes(name: string, volumesFolder: string): Promise<void> {
  const containerd = findProcess(clusterFolder(name), "containerd");
  if (containerd === undefined) throw new Error("it has no containerd");
  const unmount = `while grep -q " $1 " /proc/self/mounts; do umount "$1" || exit; done`;
  const [command = "", ...words] = inMountNamespaceOf(containerd.identity.pid, [
    "sh",
    "-c",
    unmount,
    "sh",
    volumesFolder,
  ]);
  await runCommand(command, words);
  for (const entry of readdirSync(volumesFolder)) rmSync(join(volumesFolder, entry), { recursive: true });
}
