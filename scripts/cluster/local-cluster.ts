import { join } from "node:path";
import { type Binaries, findBinaries } from "./binaries.ts";
import { readClusterState } from "./cluster-state.ts";
import { installDebianPackages } from "./debian-packages.ts";
import { clusterFolder, clustersFolder } from "./folders.ts";
import { busyboxFiles, findStaticBusybox } from "./images/busybox.ts";
import { localImages } from "./images/local-images.ts";
import { containerdSocket, importImages } from "./images.ts";
import { findKubectl } from "./kubectl.ts";
import { removeLocalCluster } from "./local-cluster-down.ts";
import { statusLocalCluster } from "./local-cluster-status.ts";
import { createLocalCluster } from "./local-cluster-up.ts";
import { type Log, silent } from "./log.ts";
import { missingNodePackages } from "./node/required-packages.ts";
import { withFileLock } from "./process/file-lock.ts";
import { slotOf } from "./slot.ts";

export const DEFAULT_CLUSTER = "tenancy";

export interface UpLocalClusterOptions {
  /** @default tenancy */
  name?: string;
  /** @default the first that `findBinaries` finds */
  binaries?: Binaries;
  log?: Log;
}

export interface LocalCluster {
  readonly name: string;
  readonly kubeconfigPath: string;
  readonly kubectlPath: string;
  /** Of Kubernetes, such as `v1.34.10`. */
  readonly version: string;
  /** Such as `https://127.0.0.1:20000`. */
  readonly server: string;
  readonly nodeName: string;
  /** The address by which pods reach this machine. */
  readonly hostAddress: string;
  /** A folder of this machine for the volumes of the cluster's pods; it goes with the cluster. */
  readonly volumesFolder: string;
  readonly containerdSocket: string;
}

const LOCK_LIMIT_MS = 120_000;

/**
 * Brings a complete cluster up, or finds it up already. One that is there in part, after a reboot for instance, is
 * removed and started afresh.
 *
 * @throws Error when not root, or with the end of the log of what does not start; nothing is left running then
 */
export async function upLocalCluster(options: UpLocalClusterOptions = {}): Promise<LocalCluster> {
  const { name = DEFAULT_CLUSTER, log = silent } = options;
  const folder = clusterFolder(name);
  if (process.getuid?.() !== 0) {
    throw new Error(`Cannot start the cluster "${name}": it takes root, for containers, mounts and a bridge; use sudo`);
  }
  await locked(name, async () => {
    const status = await statusLocalCluster({ name });
    if (status?.kind === "control-plane") {
      throw new Error(
        `Cannot start the cluster "${name}": a control plane alone has that name; stop it or use another`,
      );
    }
    if (status?.ready) {
      log(`the cluster "${name}" is up`);
      await importImages(name, localImages(await busyboxFiles(await findStaticBusybox(log))));
      return;
    }
    if (status !== undefined) {
      const ended = status.processes.filter(({ running }) => !running).map((process) => process.name);
      log(`the cluster "${name}" is not whole (${ended.join(", ") || "not ready"}), so it is started afresh`);
      await removeLocalCluster(name, log);
    }
    await installDebianPackages(missingNodePackages(), log);
    const binaries = options.binaries ?? (await findBinaries({ log }));
    try {
      await createLocalCluster({ name, binaries, log });
    } catch (error) {
      await removeLocalCluster(name, log).catch((second: unknown) => {
        throw new AggregateError(
          [error, second],
          `${(error as Error).message}\nand it could not be removed: ${second}`,
        );
      });
      throw error;
    }
  });
  const state = readClusterState(folder);
  if (state?.slot === undefined) throw new Error(`Cannot find the cluster "${name}": it has just been removed`);
  return {
    name,
    kubeconfigPath: join(folder, "kubeconfig"),
    kubectlPath: await findKubectl(log),
    version: state.version,
    server: state.server,
    nodeName: name,
    hostAddress: slotOf(state.slot).address,
    volumesFolder: join(folder, "volumes"),
    containerdSocket: containerdSocket(folder),
  };
}

/**
 * Stops a cluster, complete or a control plane alone, and removes all that it has made; tells whether there was one.
 *
 * @throws Error when something does not end or cannot be removed
 */
export function downLocalCluster({
  name = DEFAULT_CLUSTER,
  log = silent,
}: {
  name?: string;
  log?: Log;
}): Promise<boolean> {
  return locked(name, () => removeLocalCluster(name, log));
}

function locked<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
  const what = `another command on the cluster "${name}"`;
  return withFileLock(join(clustersFolder(), `${name}.lock`), { what, limitMs: LOCK_LIMIT_MS }, work);
}
