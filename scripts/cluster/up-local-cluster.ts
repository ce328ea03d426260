import { join } from "node:path";
import { type Binaries, findBinaries } from "./binaries.ts";
import { readClusterState, recordOwner, withClusterLock } from "./cluster-state.ts";
import { installDebianPackages } from "./debian-packages.ts";
import { removeLocalCluster } from "./down-local-cluster.ts";
import { clusterFolder, DEFAULT_CLUSTER } from "./folders.ts";
import { findLocalImages } from "./images/local-images.ts";
import { containerdSocket, importImages } from "./images.ts";
import { findKubectl } from "./kubernetes/kubectl.ts";
import { type Log, silent } from "./log.ts";
import { createLocalCluster } from "./node/create-local-cluster.ts";
import { missingNodePackages } from "./node/required-packages.ts";
import { findPolicyEngine, type Policies } from "./policies/find-engine.ts";
import { isRunning, type ProcessIdentity } from "./process/process-identity.ts";
import { slotOf } from "./slot.ts";
import { timeStart } from "./start-times.ts";
import { statusLocalCluster } from "./status-local-cluster.ts";

export interface UpLocalClusterOptions {
  /** @default tenancy */
  name?: string;
  /** @default the first that `findBinaries` finds */
  binaries?: Binaries;
  /** The process whose end stops the cluster. @default none */
  owner?: ProcessIdentity;
  /** Called when the API server responds. In a new cluster, the node does not accept pods yet at that time. */
  onServing?: (serving: ServingCluster) => void;
  log?: Log;
}

/** What is known about a cluster as soon as its API server responds. */
export interface ServingCluster {
  readonly kubeconfigPath: string;
  readonly kubectlPath: string;
  /** A folder of this machine for the volumes of the cluster's pods. It is deleted with the cluster. */
  readonly volumesFolder: string;
}

export interface LocalCluster extends ServingCluster {
  readonly name: string;
  /** Whether it was already running. */
  readonly wasRunning: boolean;
  /** Whether the end of the given `owner` stops it. */
  readonly isOwned: boolean;
  /** Of Kubernetes, such as `v1.34.10`. */
  readonly version: string;
  /** Such as `https://127.0.0.1:20000`. */
  readonly server: string;
  readonly nodeName: string;
  /** The address by which pods reach this machine. */
  readonly hostAddress: string;
  readonly containerdSocket: string;
  readonly policies: Policies;
}

/**
 * Starts a complete cluster unless it is already running. A cluster that runs only in part, for example after a reboot,
 * is removed and started again.
 *
 * @throws Error if the user is not root; if `owner` is set and another running process owns the cluster; or with the
 * end
 *   of the log of a program that does not start. Nothing is left running then
 */
export async function upLocalCluster(options: UpLocalClusterOptions = {}): Promise<LocalCluster> {
  const { name = DEFAULT_CLUSTER, owner, onServing, log = silent } = options;
  const folder = clusterFolder(name);
  if (process.getuid?.() !== 0) {
    throw new Error(`Cannot start the cluster "${name}": it takes root, for containers, mounts and a bridge; use sudo`);
  }
  const { wasRunning, serving } = await withClusterLock(name, async () => {
    const status = await statusLocalCluster({ name });
    if (status?.kind === "control-plane") {
      throw new Error(
        `Cannot start the cluster "${name}": a control plane alone has that name; stop it or use another`,
      );
    }
    if (status?.ready) {
      log(`the cluster "${name}" is up`);
      if (owner !== undefined) inherit(folder, owner);
      const found = await findServing();
      onServing?.(found);
      await importImages(name, await findLocalImages(log));
      return { wasRunning: true, serving: found };
    }
    if (status !== undefined) {
      const ended = status.processes.filter(({ running }) => !running).map((process) => process.name);
      log(`the cluster "${name}" is not whole (${ended.join(", ") || "not ready"}), so it is started afresh`);
      await removeLocalCluster(name, log);
    }
    await installDebianPackages(missingNodePackages(), log);
    const policyEngine = findPolicyEngine({ log });
    const binaries = options.binaries ?? (await findBinaries({ log }));
    const coming = await findServing();
    try {
      const isServing = () => onServing?.(coming);
      await timeStart(() => createLocalCluster({ name, binaries, policyEngine, onServing: isServing, log }));
      if (owner !== undefined) recordOwner(folder, owner);
    } catch (error) {
      await removeLocalCluster(name, log).catch((second: unknown) => {
        throw new AggregateError(
          [error, second],
          `${(error as Error).message}\nand it could not be removed: ${second}`,
        );
      });
      throw error;
    }
    return { wasRunning: false, serving: coming };
  });
  const state = readClusterState(folder);
  if (state?.slot === undefined) throw new Error(`Cannot find the cluster "${name}": it has just been removed`);
  return {
    ...serving,
    name,
    wasRunning,
    isOwned: owner !== undefined && state.owner?.pid === owner.pid && state.owner.startTime === owner.startTime,
    version: state.version,
    server: state.server,
    nodeName: name,
    hostAddress: slotOf(state.slot).address,
    containerdSocket: containerdSocket(folder),
    policies: state.policies ?? { enforced: false, because: "an older version has started it" },
  };

  async function findServing(): Promise<ServingCluster> {
    return {
      kubeconfigPath: join(folder, "kubeconfig"),
      kubectlPath: await findKubectl(log),
      volumesFolder: join(folder, "volumes"),
    };
  }
}

/** Replaces an owner that has ended without stopping the cluster. @throws Error if the owner still runs */
function inherit(folder: string, owner: ProcessIdentity): void {
  const state = readClusterState(folder);
  if (state?.owner === undefined) return;
  if (isRunning(state.owner)) {
    throw new Error(
      `Cannot use the cluster "${state.name}": the npm start of process ${state.owner.pid} takes it down when it ends; ` +
        `stop that one (Ctrl-C in its terminal, or kill ${state.owner.pid}), or use another cluster with --name`,
    );
  }
  recordOwner(folder, owner);
}
