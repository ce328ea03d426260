export interface ContainerdConfigOptions {
  folder: string;
  socket: string;
  pauseImage: string;
  /** Folder of the CNI plugins' programs. */
  pluginFolder: string;
  /** Folder of the network's configuration. */
  networkFolder: string;
}

/** Returns the configuration of a containerd that shares nothing with another one on the machine. */
export function containerdConfig(options: ContainerdConfigOptions): string {
  return `version = 2
root = "${options.folder}/root"
state = "${options.folder}/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper"]

[grpc]
  address = "${options.socket}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${options.pauseImage}"
  # A machine that withholds CAP_SYS_RESOURCE cannot start a sandbox otherwise.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${options.pluginFolder}"
    conf_dir = "${options.networkFolder}"
`;
}
