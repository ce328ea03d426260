import { stringify } from "yaml";
import { versionAtLeast } from "../kubernetes/version-at-least.ts";
import type { Authority, IssuedCertificate } from "../pki/authority.ts";
import type { Slot } from "../slot.ts";

export interface KubeletConfigOptions {
  version: string;
  slot: Slot;
  authority: Authority;
  certificate: IssuedCertificate;
  containerdSocket: string;
  /** Name of the control group that everything of the cluster is in. */
  controlGroup: string;
}

/** Returns the configuration file of a kubelet that starts pods as fast as it can and never evicts one. */
export function kubeletConfig(options: KubeletConfigOptions): string {
  const { version, slot, authority, certificate } = options;
  return stringify({
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    address: slot.address,
    port: slot.ports.kubelet,
    healthzPort: 0,
    readOnlyPort: 0,
    authentication: {
      x509: { clientCAFile: authority.certificatePath },
      webhook: { enabled: false },
      anonymous: { enabled: false },
    },
    authorization: { mode: "AlwaysAllow" },
    tlsCertFile: certificate.certificatePath,
    tlsPrivateKeyFile: certificate.keyPath,
    cgroupDriver: "cgroupfs",
    cgroupRoot: `/${options.controlGroup}`,
    cgroupsPerQOS: true,
    enforceNodeAllocatable: [],
    failSwapOn: false,
    evictionHard: {},
    imageGCHighThresholdPercent: 100,
    maxPods: 250,
    oomScoreAdj: 0,
    makeIPTablesUtilChains: false,
    serializeImagePulls: false,
    registryPullQPS: 0,
    eventRecordQPS: 0,
    // How late a running pod sees a change of its Secrets, ConfigMaps and labels; a minute would be the default.
    syncFrequency: "10s",
    kubeAPIQPS: 200,
    kubeAPIBurst: 400,
    // Nothing answers there, so a lookup fails at once; without an address the kubelet reports an event for every pod.
    clusterDNS: [slot.address],
    clusterDomain: "cluster.local",
    // Newer kubelets report at once that the node has become ready, older ones with the next regular update.
    ...(!versionAtLeast(version, "1.27") && { nodeStatusUpdateFrequency: "1s", nodeStatusReportFrequency: "5m" }),
    ...(versionAtLeast(version, "1.27") && { containerRuntimeEndpoint: `unix://${options.containerdSocket}` }),
    ...(versionAtLeast(version, "1.31") && { failCgroupV1: false }),
  });
}

interface KubeletFlagsOptions {
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
