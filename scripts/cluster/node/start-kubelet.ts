import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { recordProcess } from "../cluster-state.ts";
import { containerdSocket } from "../images.ts";
import type { ClusterKeys } from "../pki/cluster-keys.ts";
import { writeKubeconfig } from "../pki/write-kubeconfig.ts";
import type { ProcessIdentity } from "../process/process-identity.ts";
import { type Program, startProgram } from "../process/start-program.ts";
import type { Slot } from "../slot.ts";
import { kubeletConfig, kubeletFlags } from "./kubelet-config.ts";
import { inMountNamespaceOf } from "./mount-namespace.ts";

export interface StartKubeletOptions {
  /** Of the cluster. */
  folder: string;
  command: string;
  version: string;
  nodeName: string;
  slot: Slot;
  keys: ClusterKeys;
  server: string;
  containerd: ProcessIdentity;
}

/** Returns the control group that everything in a cluster's containers is in. */
export function clusterControlGroup(nodeName: string): string {
  return `tenancy-cluster-${nodeName}`;
}

/** Starts the kubelet of the cluster's only node, in the mount namespace of its containerd. */
export async function startKubelet(options: StartKubeletOptions): Promise<Program> {
  const { folder, version, nodeName, slot, keys } = options;
  const home = join(folder, "kubelet");
  mkdirSync(home, { recursive: true });
  const certificate = await keys.authority.issue({
    fileName: "kubelet",
    commonName: `system:node:${nodeName}`,
    organizations: ["system:nodes"],
    alternativeNames: [nodeName, slot.address],
    purpose: "both",
  });
  const kubeconfigPath = writeKubeconfig({
    path: join(home, "kubeconfig"),
    name: nodeName,
    server: options.server,
    authority: keys.authority.certificate,
    credential: certificate,
  });
  const configPath = join(home, "config.yaml");
  const socket = containerdSocket(folder);
  writeFileSync(
    configPath,
    kubeletConfig({
      version,
      slot,
      authority: keys.authority,
      certificate,
      containerdSocket: socket,
      controlGroup: clusterControlGroup(nodeName),
    }),
  );
  const flags = kubeletFlags({
    version,
    nodeName,
    nodeAddress: slot.address,
    configPath,
    kubeconfigPath,
    folder: home,
    containerdSocket: socket,
  });
  const [command = "", ...rest] = inMountNamespaceOf(options.containerd.pid, [options.command, ...flags]);
  const program = await startProgram({
    name: "kubelet",
    command,
    arguments: rest,
    logPath: join(folder, "log", "kubelet.log"),
    lifetime: "detached",
  });
  recordProcess(folder, program);
  return program;
}
