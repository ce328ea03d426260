import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { installDebianPackages } from "../debian-packages.ts";
import type { Log } from "../log.ts";
import { runCommand } from "../process/run-command.ts";
import type { Slot } from "../slot.ts";
import { findOnPath } from "../sources/find-on-path.ts";

const FAMILIES = [
  { tables: "iptables", rules: "v4", setting: "nf_call_iptables" },
  { tables: "ip6tables", rules: "v6", setting: "nf_call_ip6tables" },
] as const;

/**
 * Adds the rules that send the packets of a cluster's pods to its policy engine.
 *
 * @param folder of the cluster
 * @throws Error if the kernel or iptables does not support it; some of the rules may exist then
 */
export async function addHostRules(slot: Slot, { folder, log }: { folder: string; log: Log }): Promise<void> {
  if (findOnPath("iptables-restore") === undefined) await installDebianPackages(["iptables"], log);
  await loadBridgeFilter(log);
  const rules = renderRules(slot);
  for (const family of FAMILIES) {
    // Without IPv6 in the kernel, pods have no IPv6 addresses and no rules are needed.
    if (family.rules === "v6" && !existsSync("/proc/sys/net/ipv6")) continue;
    const path = rulesPath(folder, family.rules);
    writeFileSync(path, rules[family.rules]);
    await runCommand(`${family.tables}-restore`, ["--noflush", "--wait=60", path]);
    // This is set only for this bridge, so that packets of other bridges do not pass the machine's rules.
    writeFileSync(`/sys/class/net/${slot.bridge}/bridge/${family.setting}`, "1");
  }
}

/**
 * Removes the rules in a slot's chains, whichever process added them. Does nothing for a cluster without rules.
 *
 * @param folder of the cluster
 */
export async function removeHostRules(slot: Slot, { folder }: { folder: string }): Promise<void> {
  const chain = policyChain(slot);
  for (const { tables, rules } of FAMILIES) {
    if (!existsSync(rulesPath(folder, rules))) continue;
    for (const table of await tablesWith(chain, tables)) {
      const rules = (await runCommand(`${tables}-save`, ["-t", table])).split("\n");
      const jumps = rules.filter((rule) => rule.startsWith("-A") && rule.endsWith(`-j ${chain}`));
      const words = (...rest: string[]) => runCommand(tables, ["--wait", "-t", table, ...rest]);
      for (const jump of jumps) await words("-D", ...jump.split(" ").slice(1));
      await words("-F", chain);
      await words("-X", chain);
    }
  }
}

/** Of the file that the rules are read from, which is there before any of them. */
function rulesPath(folder: string, rules: string): string {
  return join(folder, `rules-${rules}`);
}

async function tablesWith(chain: string, tables: string): Promise<string[]> {
  const sections = (await runCommand(`${tables}-save`, [])).split(/^\*/m);
  return sections.filter((text) => text.includes(`\n:${chain} `)).map((text) => text.split("\n", 1)[0] as string);
}

const SETTINGS = "/proc/sys/net/bridge";
const MODULE = "br_netfilter";
const LOADER = "modprobe";

/** Whether the kernel can pass traffic between ports of a bridge through iptables. */
export function hasBridgeFilter(): boolean {
  return existsSync(SETTINGS);
}

/**
 * Loads the kernel module for that. The module would change the settings of all bridges; these are restored.
 *
 * @throws Error if the kernel has no such module
 */
async function loadBridgeFilter(log: Log): Promise<void> {
  if (hasBridgeFilter()) return;
  if (findOnPath(LOADER) === undefined) await installDebianPackages(["kmod"], log);
  await runCommand(LOADER, [MODULE]);
  for (const family of ["arp", "ip", "ip6"]) writeFileSync(`${SETTINGS}/bridge-nf-call-${family}tables`, "0");
}

/** Unloads the module, unless another program uses it. */
export async function unloadBridgeFilter(): Promise<void> {
  if (!hasBridgeFilter()) return;
  if (readFileSync(`${SETTINGS}/bridge-nf-call-iptables`, "utf8").trim() === "0")
    await runCommand(LOADER, ["-r", MODULE]);
}

/** Name of a slot's chain, which is in every table that a cluster has rules in. */
export function policyChain({ bridge }: Slot): string {
  return `${bridge}-policies`;
}

/**
 * Renders the rules that send the packets from and to a cluster's pods to its policy engine, for `iptables-restore` and
 * `ip6tables-restore`. Packets from the machine itself to pods pass: probes, execs, the edge. If no engine reads the
 * queue, the kernel drops the queued packets.
 *
 * The rules are in `mangle`, so that a firewall of the machine in `filter` still decides about packets to the machine
 * or beyond. It does not decide about packets between pods, which pass iptables only because of this project.
 */
export function renderRules(slot: Slot): { readonly v4: string; readonly v6: string } {
  const { bridge, queue } = slot;
  const chain = policyChain(slot);
  const entries = [
    `-I FORWARD -i ${bridge} -j ${chain}`,
    `-I FORWARD ! -i ${bridge} -o ${bridge} -j ${chain}`,
    `-I INPUT -i ${bridge} -j ${chain}`,
  ];
  return {
    v4: restoreInput(chain, {
      mangle: [
        `-A ${chain} -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN`,
        `-A ${chain} -m conntrack --ctstate INVALID -j DROP`,
        // These packets belong to a connection that the engine has ended.
        `-A ${chain} -p tcp ! --syn -j DROP`,
        `-A ${chain} -j NFQUEUE --queue-num ${queue}`,
        ...entries,
      ],
      filter: [`-A ${chain} -j ACCEPT`, `-I FORWARD -i ${bridge} -o ${bridge} -j ${chain}`],
    }),
    // Kubernetes gives these pods no IPv6 address; policies cannot match link-local addresses to pods.
    v6: restoreInput(chain, { mangle: [`-A ${chain} -j DROP`, ...entries] }),
  };
}

function restoreInput(chain: string, tables: Readonly<Record<string, readonly string[]>>): string {
  return Object.entries(tables)
    .map(([table, rules]) => [`*${table}`, `:${chain} - [0:0]`, ...rules, "COMMIT", ""].join("\n"))
    .join("");
}
