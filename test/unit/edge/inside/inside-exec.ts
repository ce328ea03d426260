import type { Exec } from "../../../../crds/client/exec/exec.ts";
import { insideProgram } from "../../../../scripts/cluster/images/inside-program.ts";
import { localExec } from "../../snapshots/local-exec.ts";

/**
 * Creates an exec that runs the program `inside` on this machine. Each exec has a daemon of its own, which ends with
 * it: the name of the daemon's socket belongs to the network namespace.
 *
 * @param options.controlGroups the folder that it sees at `/sys/fs/cgroup`. @default this machine's
 */
export async function insideExec({ controlGroups }: { controlGroups?: string } = {}): Promise<Exec> {
  const program = await insideProgram();
  const user = process.getuid?.() === 0 ? [] : ["--user", "--map-root-user"];
  // A login shell would run what this machine's user has in their profile.
  const unshare = [
    "/usr/bin/env",
    "HOME=/nonexistent",
    "/usr/bin/unshare",
    ...user,
    "--net",
    ...(controlGroups === undefined ? [] : ["--mount"]),
    "--pid",
    "--fork",
    "--kill-child",
    "--",
  ];
  const mounted = 'mount --bind "$0" /sys/fs/cgroup && exec "$@"';
  const mount = controlGroups === undefined ? [] : ["/bin/sh", "-c", mounted, controlGroups];
  return (options) => localExec({ ...options, command: [...unshare, ...mount, program, "connect"] });
}
