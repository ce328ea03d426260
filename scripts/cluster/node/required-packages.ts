import { existsSync } from "node:fs";
import { findOnPath } from "../sources/find-on-path.ts";

const PACKAGES: Readonly<Record<string, string>> = {
  containerd: "containerd",
  ctr: "containerd",
  runc: "runc",
  ip: "iproute2",
  mount: "mount",
  unshare: "util-linux",
  nsenter: "util-linux",
};

const PLUGIN_FOLDERS = ["/usr/lib/cni", "/opt/cni/bin"];
const PLUGINS = ["bridge", "host-local", "loopback"];

/** Returns the Debian packages of those programs that a node needs and this machine has from nowhere. */
export function missingNodePackages(): string[] {
  const missing = Object.entries(PACKAGES).flatMap(([program, name]) => (findOnPath(program) ? [] : [name]));
  if (pluginFolder() === undefined) missing.push("containernetworking-plugins");
  return [...new Set(missing)];
}

/** Returns the folder that the CNI plugins' programs are in, or undefined. */
export function pluginFolder(): string | undefined {
  return PLUGIN_FOLDERS.find((folder) => PLUGINS.every((plugin) => existsSync(`${folder}/${plugin}`)));
}
