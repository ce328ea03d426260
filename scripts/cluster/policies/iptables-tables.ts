import { runCommand } from "../process/run-command.ts";
import { findOnPath } from "../sources/find-on-path.ts";

/** What iptables makes of itself, the first time that it is asked for a rule. */
const TABLES = ["ip mangle", "ip filter", "ip nat", "ip6 mangle"];

/** Returns those nftables tables of iptables that are there, such as `ip filter`; none where nothing can tell. */
export async function listTables(): Promise<string[]> {
  if (findOnPath("nft") === undefined) return [];
  const lines = (await runCommand("nft", ["list", "tables"])).split("\n");
  return TABLES.filter((table) => lines.includes(`table ${table}`));
}

/** Deletes those that are there, hold no rule and no chain of anybody, and are not among the ones named. */
export async function deleteEmptyTables({ except }: { except: readonly string[] }): Promise<void> {
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
