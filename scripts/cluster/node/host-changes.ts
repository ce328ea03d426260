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

/** The state, before the first cluster, of everything that a kubelet changes outside a cluster's own folder. */
interface HostChanges {
  /** Kernel settings by their path below /proc/sys. */
  readonly settings: Readonly<Record<string, string>>;
  /** Folders that were created as mount points, the outermost first. */
  readonly folders: readonly string[];
  /** The existing tables in which iptables keeps its rules. */
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
 * Records the state of the machine before the first complete cluster changes it, and creates the mount points. A second
 * cluster finds this record and does not change it.
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

/** Restores the state of the machine from before the first complete cluster, after the last one was removed. */
export async function restoreHost(clusters: string): Promise<void> {
  const path = join(clusters, FILE);
  if (!existsSync(path)) return;
  const { settings, folders, tables, bridgeFilter } = JSON.parse(readFileSync(path, "utf8")) as HostChanges;
  for (const [name, value] of Object.entries(settings)) {
    if (readFileSync(`/proc/sys/${name}`, "utf8").trim() !== value) writeFileSync(`/proc/sys/${name}`, value);
  }
  for (const folder of folders.toReversed()) {
    // Another program has begun to use it, so it stays.
    if (!existsSync(folder) || readdirSync(folder).length > 0) continue;
    try {
      rmdirSync(folder);
    } catch (error) {
      // A mount point, as `ip netns` makes of its folder.
      if ((error as NodeJS.ErrnoException).code !== "EBUSY") throw error;
    }
  }
  // A record of an older version does not have these two fields.
  if (tables !== undefined) await deleteEmptyTables({ except: tables });
  if (bridgeFilter === false) await unloadBridgeFilter();
  rmSync(path);
}

function missingFolders(folder: string): string[] {
  const missing: string[] = [];
  for (let path = folder; !existsSync(path); path = join(path, "..")) missing.unshift(path);
  return missing;
}

/** The tables that iptables creates at its first use. */
const TABLES = ["ip mangle", "ip filter", "ip nat", "ip6 mangle"];

/** Returns the existing nftables tables of iptables, such as `ip filter`; none without the program nft. */
async function listTables(): Promise<string[]> {
  if (findOnPath("nft") === undefined) return [];
  const lines = (await runCommand("nft", ["list", "tables"])).split("\n");
  return TABLES.filter((table) => lines.includes(`table ${table}`));
}

/** Deletes the tables of iptables that are empty, except the named ones. */
async function deleteEmptyTables({ except }: { except: readonly string[] }): Promise<void> {
  for (const table of await listTables()) {
    if (except.includes(table)) continue;
    const content = await runCommand("nft", ["list", "table", ...table.split(" ")]);
    if (isEmpty(content)) await runCommand("nft", ["delete", "table", ...table.split(" ")]);
  }
}

/** Whether a table has only the kernel's own chains, with policies that accept everything. */
function isEmpty(content: string): boolean {
  return content
    .split("\n")
    .map((line) => line.trim())
    .every((line) => /^(|\}|table .* \{|chain [A-Z]+ \{|type .* policy accept;)$/.test(line));
}
