import { versionAtLeast } from "./version-at-least.ts";

export interface KubeletFlagsOptions {
  version: string;
  nodeName: string;
  /** Must not be loopback. */
  nodeAddress: string;
  configPath: string;
  kubeconfigPath: string;
  folder: string;
  containerdSocket: string;
}

/** Returns the command line of a kubelet, for what its configuration file has no field for. */
export function kubeletFlags(options: KubeletFlagsOptions): string[] {
  return [
    `--config=${options.configPath}`,
    `--kubeconfig=${options.kubeconfigPath}`,
    `--hostname-override=${options.nodeName}`,
    `--node-ip=${options.nodeAddress}`,
    `--root-dir=${options.folder}`,
    `--cert-dir=${options.folder}/pki`,
    `--volume-plugin-dir=${options.folder}/volume-plugins`,
    ...(versionAtLeast(options.version, "1.27")
      ? []
      : ["--container-runtime=remote", `--container-runtime-endpoint=unix://${options.containerdSocket}`]),
  ];
}
