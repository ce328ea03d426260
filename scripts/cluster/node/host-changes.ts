import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { hasBridgeFilter, unloadBridgeFilter } from "../policies/host-rules.ts";
import { withFileLock } from "../process/file-lock.ts";
import { runCommand } from "../process/run-command.ts";
import { findOnPath } from "../sources/find-on-path.ts";

/** Held while the state that clusters share is read or changed: slots, bridges, and the machine's settings. */
export function withHostLock<Result>(clusters: string, work: () => Promise<Result>): Promise<Result> {
  const what = "another cluster that is being started or stopped";
  return withFileLock(join(clusters, "host.lock"), { what, limitMs: 300_000 }, work);
}

/** What running a kubelet changes on the machine outside of a cluster's own folder, as it was before. */
interface HostChanges {
  /** Kernel settings by their path below /proc/sys. */
  readonly settings: Readonly<Record<string, string>>;
  /** Folders that were made to be mounted on, outermost first. */
  readonly folders: readonly string[];
  /** Those that iptables keeps its rules in, as far as they were there. */
  readonly tables?: readonly string[];
  readonly bridgeFilter?: boolean;
}

/** Settings that every kubelet makes when it starts. */
const KUBELET_SETTINGS = [
  "vm/overcommit_memory",
  "vm/panic_on_oom",
  "kernel/panic",
  "kernel/panic_on_oops",
  "kernel/keys/root_maxkeys",
  "kernel/keys/root_maxbytes",
];

const FILE = "host-before.json";

/**
 * Writes down how the machine is before the first complete cluster changes it, and makes the folders that are to be
 * mounted on; a second cluster finds the first one's notes and leaves them.
 *
 * @param clusters folder that holds one folder a cluster
 */
export async function noteHost(clusters: string, mountPoints: readonly string[]): Promise<void> {
  const path = join(clusters, FILE);
  const missing = mountPoints.flatMap(missingFolders);
  for (const folder of mountPoints) mkdirSync(folder, { recursive: true });
  const before = existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as HostChanges) : undefined;
  const settings =
    before?.settings ??
    Object.fromEntries(
      KUBELET_SETTINGS.filter((name) => existsSync(`/proc/sys/${name}`)).map((name) => [
        name,
        readFileSync(`/proc/sys/${name}`, "utf8").trim(),
      ]),
    );
  const changes: HostChanges = {
    settings,
    folders: [...(before?.folders ?? []), ...new Set(missing)],
    tables: before?.tables ?? (await listTables()),
    bridgeFilter: before?.bridgeFilter ?? hasBridgeFilter(),
  };
  writeFileSync(path, JSON.stringify(changes, undefined, 2));
}

/** Makes the machine as it was before the first complete cluster; for when the last one is gone. */
export async function restoreHost(clusters: string): Promise<void> {
  const path = join(clusters, FILE);
  if (!existsSync(path)) return;
  const { settings, folders, tables, bridgeFilter } = JSON.parse(readFileSync(path, "utf8")) as HostChanges;
  for (const [name, value] of Object.entries(settings)) {
    if (readFileSync(`/proc/sys/${name}`, "utf8").trim() !== value) writeFileSync(`/proc/sys/${name}`, value);
  }
  for (const folder of folders.toReversed()) {
    // Somebody else has begun to use it: then it is theirs.
    if (!existsSync(folder) || readdirSync(folder).length > 0) continue;
    try {
      rmdirSync(folder);
    } catch (error) {
      // A mount point, as `ip netns` makes of its folder.
      if ((error as NodeJS.ErrnoException).code !== "EBUSY") throw error;
    }
  }
  // A note of an older version lacks both fields.
  if (tables !== undefined) await deleteEmptyTables({ except: tables });
  if (bridgeFilter === false) await unloadBridgeFilter();
  rmSync(path);
}

function missingFolders(folder: string): string[] {
  const missing: string[] = [];
  for (let path = folder; !existsSync(path); path = join(path, "..")) missing.unshift(path);
  return missing;
}

/** What iptables makes of itself, the first time that it is asked for a rule. */
const TABLES = ["ip mangle", "ip filter", "ip nat", "ip6 mangle"];

/** Returns those nftables tables of iptables that are there, such as `ip filter`; none where nothing can tell. */
async function listTables(): Promise<string[]> {
  if (findOnPath("nft") === undefined) return [];
  const lines = (await runCommand("nft", ["list", "tables"])).split("\n");
  return TABLES.filter((table) => lines.includes(`table ${table}`));
}

/** Deletes those that are there, hold no rule and no chain of anybody, and are not among the ones named. */
async function deleteEmptyTables({ except }: { except: readonly string[] }): Promise<void> {
  for (const table of await listTables()) {
    if (except.includes(table)) continue;
    const content = await runCommand("nft", ["list", "table", ...table.split(" ")]);
    if (isEmpty(content)) await runCommand("nft", ["delete", "table", ...table.split(" ")]);
  }
}

/** Of nothing but the kernel's own chains, which let everything pass. */
function isEmpty(content: string): boolean {
  return content
    .split("\n")
    .map((line) => line.trim())
    .every((line) => /^(|\}|table .* \{|chain [A-Z]+ \{|type .* policy accept;)$/.test(line));
}
