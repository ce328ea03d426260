import { join } from "node:path";
import { recordProcess } from "../cluster-state.ts";
import { logTail } from "../process/log-tail.ts";
import { type Program, startProgram } from "../process/start-program.ts";
import { waitUntil } from "../process/wait-until.ts";

export interface EtcdOptions {
  /** The cluster's folder. */
  folder: string;
  command: string;
  clientPort: number;
  peerPort: number;
  lifetime: "parent" | "detached";
}

export interface Etcd {
  readonly url: string;
  /** Holds all that it keeps. */
  readonly dataFolder: string;
  readonly program: Program;
  /** Forgets every revision before the newest, so that a list or watch from an older one ends with 410 Gone. */
  compact(): Promise<void>;
}

const START_LIMIT_MS = 60_000;

/**
 * Starts an etcd on loopback and waits until it answers.
 *
 * @throws Error with the end of its log when it ends or does not answer
 */
export async function startEtcd(options: EtcdOptions): Promise<Etcd> {
  const url = `http://127.0.0.1:${options.clientPort}`;
  const dataFolder = join(options.folder, "etcd");
  const program = await startProgram({
    name: "etcd",
    command: options.command,
    arguments: etcdFlags({ ...options, dataFolder }),
    logPath: join(options.folder, "log", "etcd.log"),
    lifetime: options.lifetime,
  });
  recordProcess(options.folder, program);
  await waitUntil(() => isHealthy(url, program), {
    what: "etcd to answer",
    limitMs: START_LIMIT_MS,
    intervalMs: 20,
    explain: () => logTail(program.logPath),
  });
  return { url, dataFolder, program, compact: () => compactEtcd(url) };
}

/** Forgets every revision of the etcd at that address before the newest. */
async function compactEtcd(url: string): Promise<void> {
  const key = Buffer.from("compact").toString("base64");
  const { header } = (await post(url, "/v3/kv/range", { key })) as { header: { revision: string } };
  await post(url, "/v3/kv/compaction", { revision: header.revision, physical: true });
}

async function isHealthy(url: string, program: Program): Promise<boolean> {
  const ending = program.ending();
  if (ending !== undefined) throw new Error(`Cannot start etcd: ${ending}\n${logTail(program.logPath)}`);
  try {
    const response = await fetch(`${url}/health`, { signal: AbortSignal.timeout(2000) });
    return ((await response.json()) as { health?: string }).health === "true";
  } catch (error) {
    // Not listening yet; the time limit of the wait reports a longer delay.
    if (error instanceof TypeError || (error as Error).name === "TimeoutError") return false;
    throw error;
  }
}

async function post(url: string, path: string, body: unknown): Promise<unknown> {
  const response = await fetch(`${url}${path}`, {
    method: "POST",
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  });
  const text = await response.text();
  // Somebody else compacted to the same revision first: that is what was asked for.
  if (response.ok || text.includes("has been compacted")) return JSON.parse(text);
  throw new Error(`Cannot POST ${path} to etcd: status ${response.status} ${text}`);
}

interface EtcdFlagsOptions {
  dataFolder: string;
  clientPort: number;
  peerPort: number;
}

/** Returns the command line of a single etcd on loopback, for a cluster whose data may be lost with the machine. */
function etcdFlags({ dataFolder, clientPort, peerPort }: EtcdFlagsOptions): string[] {
  const client = `http://127.0.0.1:${clientPort}`;
  const peer = `http://127.0.0.1:${peerPort}`;
  return [
    `--data-dir=${dataFolder}`,
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
    "--unsafe-no-fsync",
    "--log-level=warn",
    // The only member elects itself: 100 ms instead of the second that a group of several waits. A shorter interval than
    // a fifth of that wakes it up more often for nothing.
    "--heartbeat-interval=20",
    "--election-timeout=100",
  ];
}
