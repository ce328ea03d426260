import { lookup } from "node:dns/promises";
import { readdirSync, readlinkSync } from "node:fs";
import type { ListenAddress } from "../../crds/environment.ts";
import { loadConfig } from "../../edge/config.ts";
import { operatorConfig } from "../../operator/config.ts";
import { isPortFree } from "../cluster/process/free-port.ts";
import { readIfThere, unlessGone } from "../cluster/process/read-if-there.ts";

/** A process that listens on a port. */
interface Holder {
  readonly pid: number;
  readonly command: string;
  /** The npm start that it belongs to. */
  readonly start: number | undefined;
}

/** State of a listening socket in /proc/net/tcp, https://docs.kernel.org/networking/proc_net_tcp.html. */
const LISTENING = "0A";
const COMMAND_LENGTH = 100;

/**
 * Checks that the addresses for npm start are free, and that the environment is valid for both programs.
 *
 * @param again the command that starts it with other addresses
 * @throws Error that names the addresses in use, their processes if known, and what to do
 */
export async function requireFreeAddresses(env: NodeJS.ProcessEnv, { again }: { again: string }): Promise<void> {
  const edge = loadConfig(env);
  const addresses: [variable: string, address: ListenAddress | undefined][] = [
    ["TENANCY_LISTEN", edge.listen],
    ["TENANCY_PROXY_LISTEN", edge.roles.has("proxy") ? edge.proxy.listen : undefined],
    ["TENANCY_EDGE_METRICS_LISTEN", edge.metricsListen],
    ["TENANCY_OPERATOR_LISTEN", operatorConfig(env).listen],
  ];
  const lines: string[] = [];
  const starts = new Set<number>();
  const beside: string[] = [];
  const suggested = new Set<number>(addresses.flatMap(([, address]) => address?.port ?? []));
  for (const [variable, address] of addresses) {
    if (address === undefined || address.port === 0 || (await isFree(address))) continue;
    const holder = findHolder(address.port);
    if (holder?.start !== undefined) starts.add(holder.start);
    const who = holder === undefined ? "whom cannot be told from here" : `process ${holder.pid}: ${holder.command}`;
    lines.push(`  ${written(address)} (${variable}) by ${who}`);
    const port = await nextFree(address, suggested);
    beside.push(`${variable}=${written({ ...address, port })}`);
  }
  if (lines.length === 0) return;
  const stop =
    starts.size === 0
      ? "Stop what has them"
      : `Stop the npm start that has them: Ctrl-C in its terminal, or kill ${[...starts].join(" ")}`;
  throw new Error(
    `Cannot listen where npm start listens, since this is taken:\n${lines.join("\n")}\n${stop}; or start this one beside it:\n  ${beside.join(" ")} ${again}`,
  );
}

/** Checks every address that the name resolves to, since a client may try any of them. */
async function isFree(address: ListenAddress): Promise<boolean> {
  try {
    const found = await lookup(address.hostname, { all: true });
    const free = await Promise.allSettled(found.map((one) => isPortFree(address.port, one.address)));
    const [failed] = free.filter((one) => one.status === "rejected");
    if (failed !== undefined && free.every(({ status }) => status === "rejected")) throw failed.reason;
    return free.every((one) => one.status === "rejected" || one.value);
  } catch (cause) {
    throw new Error(`Cannot listen on ${written(address)}: ${(cause as Error).message}`, { cause });
  }
}

async function nextFree({ hostname, port }: ListenAddress, suggested: Set<number>): Promise<number> {
  for (let next = port + 1; next < 65_536; next += 1) {
    if (suggested.has(next) || !(await isFree({ hostname, port: next }))) continue;
    suggested.add(next);
    return next;
  }
  return 0;
}

/** Undefined if this is not Linux, or the process belongs to another user. */
function findHolder(port: number): Holder | undefined {
  const sockets = new Set(["tcp", "tcp6"].flatMap((table) => listeningSockets(`/proc/net/${table}`, port)));
  if (sockets.size === 0) return undefined;
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const pid = pids.find((candidate) => openFiles(candidate).some((file) => sockets.has(file)));
  if (pid === undefined) return undefined;
  const line = [Number(pid), ...ancestors(pid)];
  const start = line.find((one) => /(^|\/)scripts\/start\.ts$/m.test(commandOf(one).join("\n")));
  return { pid: Number(pid), command: commandOf(Number(pid)).join(" ").slice(0, COMMAND_LENGTH), start };
}

function listeningSockets(table: string, port: number): string[] {
  const rows = (readIfThere(table) ?? "").split("\n").map((line) => line.trim().split(/\s+/));
  return rows.flatMap(([, local = "", , state, , , , , , inode]) =>
    state === LISTENING && Number.parseInt(local.split(":")[1] ?? "", 16) === port ? [`socket:[${inode}]`] : [],
  );
}

/** The open files of a process; none if it has ended or belongs to another user. */
function openFiles(pid: string): string[] {
  const folder = `/proc/${pid}/fd`;
  const forbidden = ["EACCES", "EPERM"];
  const files = unlessGone(() => readdirSync(folder), forbidden) ?? [];
  return files.flatMap((file) => unlessGone(() => readlinkSync(`${folder}/${file}`), forbidden) ?? []);
}

function ancestors(pid: string): number[] {
  const stat = readIfThere(`/proc/${pid}/stat`) ?? "";
  const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
  return parent > 1 ? [parent, ...ancestors(String(parent))] : [];
}

function commandOf(pid: number): string[] {
  return (readIfThere(`/proc/${pid}/cmdline`) ?? "").split("\0").filter(Boolean);
}

function written({ hostname, port }: ListenAddress): string {
  return `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}
