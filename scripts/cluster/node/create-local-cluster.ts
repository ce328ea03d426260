import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type Binaries, programPath } from "../binaries.ts";
import { findProcess, forgetProcess, recordPolicies, recordProcess, writeClusterState } from "../cluster-state.ts";
import { clusterFolder, clustersFolder } from "../folders.ts";
import { findLocalImages } from "../images/local-images.ts";
import { importImages } from "../images.ts";
import { startApiServer, untilApiServer } from "../kubernetes/api-server.ts";
import { startEtcd } from "../kubernetes/etcd.ts";
import { versionAtLeast } from "../kubernetes/version-at-least.ts";
import type { Log } from "../log.ts";
import type { Authority } from "../pki/authority.ts";
import { type ClusterKeys, clusterKeys, type ServiceAccountKeys } from "../pki/cluster-keys.ts";
import type { Policies, PolicyEngine } from "../policies/find-engine.ts";
import { addHostRules, removeHostRules } from "../policies/host-rules.ts";
import { ENGINE, startEngine } from "../policies/start-engine.ts";
import { type Program, startProgram } from "../process/start-program.ts";
import { stopProcess } from "../process/stop-process.ts";
import { chooseSlot, type Slot } from "../slot.ts";
import { createControlGroup } from "./control-groups.ts";
import { noteHost, withHostLock } from "./host-changes.ts";
import { PRIVATE_FOLDERS } from "./mount-namespace.ts";
import { createBridge, isSlotFree } from "./network.ts";
import { startContainerd } from "./start-containerd.ts";
import { clusterControlGroup, startKubelet } from "./start-kubelet.ts";
import { waitForNode } from "./wait-for-node.ts";

export interface CreateLocalClusterOptions {
  name: string;
  binaries: Binaries;
  /** The programs, which are found or built while the rest starts. */
  policyEngine: Promise<PolicyEngine>;
  /** Called when the API server responds, before the node accepts pods. */
  onServing: () => void;
  log: Log;
}

const REASON_LENGTH = 400;

interface Making extends CreateLocalClusterOptions {
  readonly folder: string;
  readonly slot: Slot;
  readonly server: string;
  readonly keys: ClusterKeys;
}

/**
 * Starts a new complete cluster. Its control plane and its node start at the same time.
 *
 * @throws Error with the end of the log of a program that does not start
 */
export async function createLocalCluster(options: CreateLocalClusterOptions): Promise<void> {
  const { name, binaries, log } = options;
  const folder = clusterFolder(name);
  const { version } = binaries;
  for (const path of ["log", "volumes"]) mkdirSync(join(folder, path), { recursive: true, mode: 0o700 });
  const slot = await withHostLock(clustersFolder(), async () => {
    const free = await chooseSlot(name, isSlotFree);
    writeClusterState(folder, {
      name,
      kind: "complete",
      version,
      server: serverOf(free),
      slot: free.number,
      processes: [],
    });
    await noteHost(clustersFolder(), PRIVATE_FOLDERS);
    createControlGroup(clusterControlGroup(name));
    await createBridge(free);
    return free;
  });
  const server = serverOf(slot);
  const making: Making = { ...options, folder, slot, server, keys: await clusterKeys({ folder, name, server }) };
  const [{ etcd, apiServer }, containerd] = await Promise.all([startControlPlane(making), startRuntime(making)]);
  log("starting kubelet, kube-controller-manager and kube-scheduler");
  // The rules are added before the first pod. From here on, nothing passes until the engine runs.
  const engine = await preparePolicies(making);
  const [policies, ...others] = await Promise.all([
    enforcePolicies(making, engine),
    startKubelet({
      ...{ folder, version, nodeName: name, slot, keys: making.keys, server },
      command: programPath(binaries, "kubelet"),
      containerd: containerd.identity,
    }),
    ...startControllers(making, apiServer),
  ]);
  await waitForNode({
    kubeconfigPath: making.keys.kubeconfigPath,
    nodeName: name,
    programs: [etcd, apiServer, containerd, ...others],
  });
  recordPolicies(folder, policies);
}

async function preparePolicies({ policyEngine, slot, folder, log }: Making): Promise<PolicyEngine> {
  const engine = await policyEngine;
  if ("because" in engine) return engine;
  return withHostLock(clustersFolder(), async () => {
    try {
      await addHostRules(slot, { folder, log });
      return engine;
    } catch (error) {
      await removeHostRules(slot, { folder });
      return { because: (error as Error).message };
    }
  });
}

/** Starts the policy engine. If policies cannot be enforced, the cluster still starts, and the log says so. */
async function enforcePolicies({ name, folder, slot, keys, log }: Making, engine: PolicyEngine): Promise<Policies> {
  let because = "because" in engine ? engine.because : "";
  if ("path" in engine) {
    try {
      const { kubeconfigPath } = keys;
      await startEngine({ folder, command: engine.path, nodeName: name, slot, kubeconfigPath });
      return { enforced: true };
    } catch (error) {
      because = (error as Error).message;
      const failed = findProcess(folder, ENGINE);
      if (failed !== undefined) await stopProcess(failed.identity, { name: ENGINE, graceMs: 0 });
      forgetProcess(folder, ENGINE);
      await withHostLock(clustersFolder(), () => removeHostRules(slot, { folder }));
    }
  }
  const inOneLine = because.replaceAll(/\s+/g, " ").slice(0, REASON_LENGTH);
  log(`network policies are not enforced: ${inOneLine}`);
  return { enforced: false, because: inOneLine };
}

function serverOf({ ports }: Slot): string {
  return `https://127.0.0.1:${ports.apiServer}`;
}

async function startControlPlane({
  binaries,
  folder,
  slot,
  keys,
  onServing,
  log,
}: Making): Promise<{ etcd: Program; apiServer: Program }> {
  log("starting etcd and kube-apiserver");
  const etcd = await startEtcd({
    folder,
    command: programPath(binaries, "etcd"),
    clientPort: slot.ports.etcdClient,
    peerPort: slot.ports.etcdPeer,
    lifetime: "detached",
  });
  const apiServer = await startApiServer({
    folder,
    command: programPath(binaries, "kube-apiserver"),
    kubeconfigPath: keys.kubeconfigPath,
    lifetime: "detached",
    flags: {
      ...keys,
      version: binaries.version,
      port: slot.ports.apiServer,
      etcdUrl: etcd.url,
      serviceNetwork: "10.96",
      complete: true,
    },
    // The rest of the cluster does not need these two, and they take another second. The wait for the node includes
    // them.
    readyPath:
      "/readyz?exclude=poststarthook/rbac/bootstrap-roles&exclude=poststarthook/scheduling/bootstrap-system-priority-classes",
  });
  onServing();
  return { etcd: etcd.program, apiServer };
}

async function startRuntime({ name, folder, slot, log }: Making): Promise<Program> {
  log("starting containerd and importing the images of the examples");
  const [containerd, images] = await Promise.all([startContainerd(folder, slot), findLocalImages(log)]);
  await importImages(name, images);
  return containerd;
}

function startControllers({ binaries, folder, slot, keys }: Making, apiServer: Program): Promise<Program>[] {
  const { version } = binaries;
  const common = { version, folder: join(folder, "pki"), kubeconfigPath: keys.kubeconfigPath };
  const start = async (name: "kube-controller-manager" | "kube-scheduler", flags: string[]): Promise<Program> => {
    const program = await startProgram({
      name,
      command: programPath(binaries, name),
      arguments: flags,
      logPath: join(folder, "log", `${name}.log`),
      lifetime: "detached",
    });
    recordProcess(folder, program);
    return program;
  };
  const startManager = async (): Promise<Program> => {
    // It ends if the API server is not healthy within 10 s of its start: a busy machine can take longer.
    await untilApiServer(apiServer, { kubeconfigPath: keys.kubeconfigPath, path: "/healthz" });
    const flags = controllerManagerFlags({ ...common, ...keys, port: slot.ports.controllerManager });
    return await start("kube-controller-manager", flags);
  };
  return [startManager(), start("kube-scheduler", schedulerFlags({ ...common, port: slot.ports.scheduler }))];
}

interface ControllerFlagsOptions {
  version: string;
  folder: string;
  port: number;
  kubeconfigPath: string;
}

/** Returns the command line of the only scheduler of a cluster. */
export function schedulerFlags(options: ControllerFlagsOptions): string[] {
  return [
    ...commonFlags(options),
    // A pod that is tried again just before the scheduler sees its volume bound waits this long for the next try.
    ...(versionAtLeast(options.version, "1.24") ? ["--pod-max-in-unschedulable-pods-duration=5s"] : []),
  ];
}

function commonFlags(options: ControllerFlagsOptions): string[] {
  return [
    `--kubeconfig=${options.kubeconfigPath}`,
    "--leader-elect=false",
    "--bind-address=127.0.0.1",
    `--secure-port=${options.port}`,
    `--cert-dir=${options.folder}`,
    "--authentication-skip-lookup=true",
    ...(versionAtLeast(options.version, "1.24") ? [] : ["--port=0"]),
  ];
}

/** Returns the command line of the only controller manager of a cluster. */
function controllerManagerFlags(
  options: ControllerFlagsOptions & { authority: Authority; serviceAccounts: ServiceAccountKeys },
): string[] {
  return [
    ...commonFlags(options),
    `--service-account-private-key-file=${options.serviceAccounts.privateKeyPath}`,
    `--root-ca-file=${options.authority.certificatePath}`,
    "--kube-api-qps=200",
    "--kube-api-burst=400",
    // A claim that was seen before its volume is bound in the next such round.
    "--pvclaimbinder-sync-period=1s",
  ];
}
