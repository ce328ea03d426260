import { mkdirSync } from "node:fs";
import { join } from "node:path";

/**
 * Folders with fixed names that a container runtime, its network plugins and a kubelet write to. Each cluster sees
 * folders of its own in their place.
 */
export const PRIVATE_FOLDERS: readonly string[] = [
  "/run/containerd",
  "/run/netns",
  "/var/lib/cni",
  "/var/lib/kubelet",
  "/var/log/containers",
  "/var/log/pods",
];

const MOUNT_AND_RUN = `set -e
while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done
shift
mount --make-rshared /
exec "$@"`;

/**
 * Returns the command line that runs a command in a mount namespace of its own, in the same process. Whatever is
 * mounted there is nowhere else, and vanishes with the last process in it.
 *
 * @param folder of the cluster
 */
export function inNewMountNamespace(folder: string, command: readonly string[]): string[] {
  const binds = PRIVATE_FOLDERS.flatMap((path) => {
    const own = join(folder, "private", path.slice(1).replaceAll("/", "-"));
    mkdirSync(own, { recursive: true });
    return [own, path];
  });
  return [
    "unshare",
    "--mount",
    "--propagation=private",
    "--",
    "/bin/sh",
    "-c",
    MOUNT_AND_RUN,
    "sh",
    ...binds,
    "--",
    ...command,
  ];
}

/** Returns the command line that runs a command in the mount namespace of a process. */
export function inMountNamespaceOf(pid: number, command: readonly string[]): string[] {
  return ["nsenter", `--mount=/proc/${pid}/ns/mnt`, "--", ...command];
}
