import type { Authority } from "../pki/authority.ts";
import type { ServiceAccountKeys } from "../pki/cluster-keys.ts";
import { versionAtLeast } from "./version-at-least.ts";

export interface ControllerFlagsOptions {
  version: string;
  folder: string;
  port: number;
  kubeconfigPath: string;
}

/** Returns the command line of the only scheduler of a cluster. */
export function schedulerFlags(options: ControllerFlagsOptions): string[] {
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
export function controllerManagerFlags(
  options: ControllerFlagsOptions & { authority: Authority; serviceAccounts: ServiceAccountKeys },
): string[] {
  return [
    ...schedulerFlags(options),
    `--service-account-private-key-file=${options.serviceAccounts.privateKeyPath}`,
    `--root-ca-file=${options.authority.certificatePath}`,
    "--kube-api-qps=200",
    "--kube-api-burst=400",
  ];
}
