import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { type Binaries, programPath } from "./binaries.ts";
import { findProcess, readClusterState, writeClusterState } from "./cluster-state.ts";
import { clusterFolder, temporaryClusterFolder } from "./folders.ts";
import { type ApiServerOptions, startApiServer } from "./kubernetes/api-server.ts";
import { type Etcd, type EtcdOptions, startEtcd } from "./kubernetes/etcd.ts";
import { type Log, silent } from "./log.ts";
import { type ClusterKeys, clusterKeys } from "./pki/cluster-keys.ts";
import { type ClientCertificate, type ClientCertificateOptions, clientCertificate } from "./pki/write-kubeconfig.ts";
import { freePort } from "./process/free-port.ts";
import { isRunning, type ProcessIdentity } from "./process/process-identity.ts";
import { stopProcess, stopRecorded } from "./process/stop-process.ts";
import type { SimulatedNodesOptions } from "./simulated/options.ts";
import { startSimulatedNodesProcess } from "./simulated/start-process.ts";
import { timeStart } from "./start-times.ts";

export interface StartControlPlaneOptions {
  /**
   * Names the folder that its state is in, a temporary one unless it is detached; two that run at once need two names.
   */
  name: string;
  binaries: Binaries;
  /** TCP port of the API server on 127.0.0.1. @default a free one */
  port?: number;
  /** Additional flags of the API server, such as `--watch-cache=false`. */
  apiServerFlags?: readonly string[];
  /** Also starts simulated nodes, in a separate process. */
  simulatedNodes?: SimulatedNodesOptions;
  /** `parent`: when this process ends, however it ends, the kernel kills everything. @default parent */
  lifetime?: "parent" | "detached";
  log?: Log;
}

export interface ControlPlane {
  readonly name: string;
  /** Holds the keys, the data and the logs (`log/kube-apiserver.log`, `log/etcd.log`). */
  readonly folder: string;
  readonly version: string;
  /** Such as `https://127.0.0.1:23456`. */
  readonly server: string;
  /** Of a user in the group `system:masters`. */
  readonly kubeconfigPath: string;
  readonly pki: {
    readonly authorityPath: string;
    readonly adminCertificatePath: string;
    readonly adminKeyPath: string;
  };
  readonly etcd: Etcd & {
    /** Starts it again with the same ports and data. */
    start(): Promise<void>;
    /** Ends it without warning. */
    kill(): Promise<void>;
  };
  readonly apiServer: {
    /** Starts it again with the same port, keys and data. The flags apply until it stops. */
    start(options?: { extraFlags?: readonly string[] }): Promise<void>;
    /** Sends SIGTERM, and SIGKILL after 2 s: with open watches it would take much longer. */
    stop(): Promise<void>;
    /** Ends it without warning, as a crash would. */
    kill(): Promise<void>;
    identity(): ProcessIdentity;
  };
  clientCertificate(options: ClientCertificateOptions): Promise<ClientCertificate>;
  /** Stops everything and removes the folder. */
  stop(): Promise<void>;
}

/**
 * Starts etcd and an API server on loopback, without a kubelet, a scheduler or controllers.
 *
 * @throws Error if the name is in use; or with the end of the log of a program that does not start
 */
export async function startControlPlane(options: StartControlPlaneOptions): Promise<ControlPlane> {
  const { name, binaries, lifetime = "parent", log = silent } = options;
  const folder = lifetime === "parent" ? temporaryClusterFolder(name) : clusterFolder(name);
  const port = options.port ?? (await freePort());
  const server = `https://127.0.0.1:${port}`;
  prepareFolder(name, folder);
  writeClusterState(folder, { name, kind: "control-plane", version: binaries.version, server, processes: [] });
  try {
    return await timeStart(start);
  } catch (error) {
    await stop();
    throw error;
  }

  async function start(): Promise<ControlPlane> {
    const keys = await clusterKeys({ folder, name, server });
    log("starting etcd");
    const etcdOptions: EtcdOptions = {
      folder,
      command: programPath(binaries, "etcd"),
      clientPort: await freePort(),
      peerPort: await freePort(),
      lifetime,
    };
    const etcd = await startEtcd(etcdOptions);
    const apiServerOptions: ApiServerOptions = {
      folder,
      command: programPath(binaries, "kube-apiserver"),
      kubeconfigPath: keys.kubeconfigPath,
      lifetime,
      flags: { ...keys, version: binaries.version, port, etcdUrl: etcd.url, serviceNetwork: "10.96", complete: false },
    };
    const startServer = async (extraFlags: readonly string[] = []): Promise<void> => {
      await startApiServer({ ...apiServerOptions, extraFlags: [...(options.apiServerFlags ?? []), ...extraFlags] });
    };
    const identity = (): ProcessIdentity => recorded("kube-apiserver");
    log("starting kube-apiserver");
    await startServer();
    if (options.simulatedNodes) {
      log("starting the simulated nodes");
      const { kubeconfigPath } = keys;
      await startSimulatedNodesProcess({ ...options.simulatedNodes, kubeconfigPath, folder, lifetime });
    }
    return {
      ...describe({ name, folder, version: binaries.version, server, keys }),
      etcd: {
        ...etcd,
        start: () => startEtcd(etcdOptions).then(() => undefined),
        kill: () => stopProcess(recorded("etcd"), { name: "etcd", graceMs: 0 }),
      },
      apiServer: {
        start: ({ extraFlags } = {}) => startServer(extraFlags),
        stop: () => stopProcess(identity(), { name: "kube-apiserver", graceMs: 2000 }),
        kill: () => stopProcess(identity(), { name: "kube-apiserver", graceMs: 0 }),
        identity,
      },
      stop,
    };
  }

  function recorded(program: string): ProcessIdentity {
    const found = findProcess(folder, program);
    if (found === undefined) throw new Error(`Cannot find ${program} of ${name}: it was never started`);
    return found.identity;
  }

  async function stop(): Promise<void> {
    await stopRecorded(folder, 0);
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }
}

interface Described {
  name: string;
  folder: string;
  version: string;
  server: string;
  keys: ClusterKeys;
}

function describe({ keys, ...where }: Described): UsedControlPlane {
  const { folder, server } = where;
  return {
    ...where,
    kubeconfigPath: keys.kubeconfigPath,
    pki: {
      authorityPath: keys.authority.certificatePath,
      adminCertificatePath: keys.admin.certificatePath,
      adminKeyPath: keys.admin.keyPath,
    },
    clientCertificate: (request) => clientCertificate({ folder, server }, request),
  };
}

/** A control plane that another process has started, and stops. */
export type UsedControlPlane = Omit<ControlPlane, "etcd" | "apiServer" | "stop">;

/**
 * Returns the control plane that is in a folder.
 *
 * @throws Error when there is none
 */
export async function useControlPlane(folder: string): Promise<UsedControlPlane> {
  const state = readClusterState(folder);
  if (state === undefined) throw new Error(`Cannot use the control plane in ${folder}: there is none`);
  const { name, version, server } = state;
  const keys = await clusterKeys({ folder, name, server });
  return describe({ name, folder, version, server, keys });
}

/** Creates the folder again; the remains of a killed run are removed. */
function prepareFolder(name: string, folder: string): void {
  const running = readClusterState(folder)?.processes.find(({ identity }) => isRunning(identity));
  if (running) {
    throw new Error(
      `Cannot start the control plane "${name}": its ${running.name} runs already (process ${running.identity.pid}); stop it first or use another name`,
    );
  }
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(join(folder, "log"), { recursive: true, mode: 0o700 });
}
