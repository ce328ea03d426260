import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { installDebianPackages } from "../../../scripts/cluster/debian-packages.ts";
import { clustersFolder } from "../../../scripts/cluster/folders.ts";
import { withHostLock } from "../../../scripts/cluster/node/host-changes.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";

/** Addresses of documentation (RFC 5737, RFC 3849) and the metadata address, all inside the two namespaces. */
export const address = {
  pod: "198.51.100.2",
  pod6: "2001:db8:1::2",
  world: "198.51.100.1",
  world6: "2001:db8:1::1",
  resolver: "203.0.113.53",
  otherResolver: "203.0.113.54",
  allowed: "203.0.113.10",
  other: "203.0.113.20",
  badCertificates: "203.0.113.30",
  allowed6: "2001:db8:2::10",
  metadata: "169.254.169.254",
  privateHost: "10.11.12.13",
} as const;

/** Two network namespaces with a cable between them: a pod's, and all of the world that it can reach. */
export interface Namespaces {
  /** Runs a program in one of them, with an own `/etc/resolv.conf`. Killed with this process. */
  start(
    where: "pod" | "world",
    command: readonly string[],
    options?: { stdio?: "ipc" | "pipe"; uid?: number },
  ): ChildProcess;
  /** Runs a command to its end; resolves with what it wrote. */
  run(where: "pod" | "world", command: readonly string[]): Promise<string>;
  remove(): Promise<void>;
}

export async function createNamespaces(resolvConf: string): Promise<Namespaces> {
  await installDebianPackages(["haproxy", "nftables", "ca-certificates", "iproute2", "curl"], () => undefined);
  const id = randomBytes(3).toString("hex");
  const names = { pod: `tnpod-${id}`, world: `tnworld-${id}` };
  const ip = (...words: string[]) => runCommand("ip", words);
  const remove = async (): Promise<void> => {
    const present = await ip("netns", "list");
    for (const name of Object.values(names)) if (present.includes(name)) await ip("netns", "delete", name);
  };
  // HAProxy refuses to start in a folder that its user may not enter, as one below a home.
  const script = `set -e
mount --bind ${resolvConf} /etc/resolv.conf
uid=$1; shift
[ "$uid" = 0 ] && exec setpriv --pdeathsig KILL -- "$@"
cd /
exec setpriv --pdeathsig KILL --reuid="$uid" --regid="$uid" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all -- "$@"`;
  const words = (where: "pod" | "world", command: readonly string[], uid = 0) => [
    ...["netns", "exec", names[where], "sh", "-c", script, "sh", String(uid)],
    ...command,
  ];
  try {
    // A cluster that is the last to go takes the folder away that these two are mounted in, when it has made it.
    await withHostLock(clustersFolder(), async () => {
      for (const name of Object.values(names)) await ip("netns", "add", name);
    });
    for (const name of Object.values(names)) await ip("-n", name, "link", "set", "lo", "up");
    await ip("link", "add", "eth0", "netns", names.pod, "type", "veth", "peer", "name", "eth0", "netns", names.world);
    const world = ["-n", names.world];
    const pod = ["-n", names.pod];
    await ip(...pod, "address", "add", `${address.pod}/24`, "dev", "eth0");
    await ip(...pod, "address", "add", `${address.pod6}/64`, "dev", "eth0", "nodad");
    await ip(...world, "address", "add", `${address.world}/24`, "dev", "eth0");
    await ip(...world, "address", "add", `${address.world6}/64`, "dev", "eth0", "nodad");
    await ip(...pod, "link", "set", "eth0", "up");
    await ip(...world, "link", "set", "eth0", "up");
    for (const one of [
      ...[address.resolver, address.otherResolver, address.allowed, address.other, address.badCertificates],
      ...[address.metadata, address.privateHost],
    ]) {
      await ip(...world, "address", "add", `${one}/32`, "dev", "lo");
    }
    await ip(...world, "address", "add", `${address.allowed6}/128`, "dev", "lo", "nodad");
    await ip(...pod, "route", "add", "default", "via", address.world);
    await ip(...pod, "-6", "route", "add", "default", "via", address.world6);
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    start(where, command, { stdio = "pipe", uid = 0 } = {}) {
      return spawn("ip", words(where, command, uid), {
        stdio: stdio === "ipc" ? ["ignore", "inherit", "inherit", "ipc"] : ["ignore", "pipe", "pipe"],
      });
    },
    run: (where, command) => runCommand("ip", words(where, command)),
    remove,
  };
}
