import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { installDebianPackages } from "../debian-packages.ts";
import type { Log } from "../log.ts";
import { runCommand } from "../process/run-command.ts";
import { findOnPath } from "../sources/find-on-path.ts";

const SETTINGS = "/proc/sys/net/bridge";
const MODULE = "br_netfilter";
const LOADER = "modprobe";

/** Tells whether the kernel can bring what goes from port to port of a bridge before iptables. */
export function hasBridgeFilter(): boolean {
  return existsSync(SETTINGS);
}

/**
 * Loads what can, and leaves all bridges as they are, though the module means to change them.
 *
 * @throws Error when the kernel has no such module
 */
export async function loadBridgeFilter(log: Log): Promise<void> {
  if (hasBridgeFilter()) return;
  if (findOnPath(LOADER) === undefined) await installDebianPackages(["kmod"], log);
  await runCommand(LOADER, [MODULE]);
  for (const family of ["arp", "ip", "ip6"]) writeFileSync(`${SETTINGS}/bridge-nf-call-${family}tables`, "0");
}

/** Undoes that, unless somebody else has begun to use it. */
export async function unloadBridgeFilter(): Promise<void> {
  if (!hasBridgeFilter()) return;
  if (readFileSync(`${SETTINGS}/bridge-nf-call-iptables`, "utf8").trim() === "0")
    await runCommand(LOADER, ["-r", MODULE]);
}
