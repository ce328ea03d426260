import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "../cluster/process/free-port.ts";
import { logTail } from "../cluster/process/log-tail.ts";
import { type Program, startProgram } from "../cluster/process/start-program.ts";
import { signalProcess, stopProcess } from "../cluster/process/stop-process.ts";
import { OPERATOR_FLAGS } from "../start/bundle-programs.ts";
import { NAMESPACE, PROXY_IMAGE, TOOLS_IMAGE } from "./objects.ts";

/** The seconds of the leader's lease. It is short, so that many leaders are lost in a run. */
export const LEASE_SECONDS = 4;

/** One of our programs as a process that can be stopped and started again. */
export interface SoakProgram {
  readonly name: string;
  pid(): number | undefined;
  isRunning(): boolean;
  kill(): Promise<void>;
  terminate(): Promise<void>;
  /** Suspends it until `resume`. */
  suspend(): void;
  resume(): void;
  start(): Promise<void>;
  logTail(): string;
  /** Shifts its clock by this many milliseconds. */
  shiftClock(ms: number): void;
}

const CLOCK = new URL("./shifted-clock.mjs", import.meta.url);
const STOP_GRACE_MS = 25_000;

/** `onEnd` is called if a program ends without being stopped. */
interface ProgramOptions {
  name: string;
  folder: string;
  kubeconfigPath: string;
  /** Additional environment variables. */
  environment: Readonly<Record<string, string>>;
  onEnd(name: string, how: string): void;
}

/** Starts the bundled operator under Node. */
export async function startOperator(options: ProgramOptions & { bundle: string }): Promise<SoakProgram> {
  const { kubeconfigPath, bundle } = options;
  return startAgain(options, {
    command: process.execPath,
    arguments: [...OPERATOR_FLAGS, "--import", CLOCK.href, bundle],
    environment: {
      KUBECONFIG: kubeconfigPath,
      TENANCY_NAMESPACE: NAMESPACE,
      TENANCY_OPERATOR_LISTEN: "off",
      TENANCY_CPU_OVERCOMMIT: "50",
      TENANCY_MEMORY_OVERCOMMIT: "8",
      TENANCY_LEASE_SECONDS: String(LEASE_SECONDS),
      TENANCY_TOOLS_IMAGE: TOOLS_IMAGE,
      TENANCY_PROXY_IMAGE: PROXY_IMAGE,
      ...options.environment,
      TENANCY_SNAPSHOT_TIMEOUT: "30",
      TENANCY_START_TIMEOUT: "60",
    },
  });
}

/** Starts the edge under Bun, and waits until it responds. */
export async function startEdge(options: ProgramOptions & { tree: string }): Promise<SoakProgram & { url: string }> {
  const { tree, kubeconfigPath } = options;
  const listen = `127.0.0.1:${await freePort()}`;
  const program = await startAgain(options, {
    command: join(tree, "node_modules", ".bin", "bun"),
    arguments: ["--preload", fileURLToPath(CLOCK), join(tree, "edge", "main.ts")],
    environment: {
      KUBECONFIG: kubeconfigPath,
      TENANCY_NAMESPACE: NAMESPACE,
      TENANCY_LISTEN: listen,
      ...options.environment,
      TENANCY_EDGE_METRICS_LISTEN: "off",
      TENANCY_LEASE_SECONDS: String(LEASE_SECONDS),
    },
  });
  return { ...program, url: `http://${listen}` };
}

async function startAgain(
  { name, folder, onEnd }: ProgramOptions,
  settings: { command: string; arguments: readonly string[]; environment: Record<string, string> },
): Promise<SoakProgram> {
  const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith("TENANCY_"));
  const clockFile = join(folder, `${name}.clock`);
  writeFileSync(clockFile, "0");
  const environment = { ...Object.fromEntries(inherited), ...settings.environment, SOAK_CLOCK_FILE: clockFile };
  const logPath = join(folder, `${name}.log`);
  let program: Program | undefined;

  async function start(): Promise<void> {
    const started = await startProgram({ name, ...settings, environment, logPath, lifetime: "parent" });
    program = started;
    started.exited.then((how) => {
      if (program !== started) return;
      program = undefined;
      onEnd(name, how);
    });
  }

  async function stop(graceMs: number): Promise<void> {
    const stopped = program;
    program = undefined;
    if (stopped === undefined) return;
    // A suspended program reacts only to SIGKILL.
    if (graceMs > 0) signalProcess(stopped.identity, "SIGCONT");
    await stopProcess(stopped.identity, { name, graceMs });
  }

  await start();
  return {
    name,
    shiftClock: (ms) => writeFileSync(clockFile, String(ms)),
    pid: () => program?.identity.pid,
    isRunning: () => program !== undefined,
    kill: () => stop(0),
    terminate: () => stop(STOP_GRACE_MS),
    suspend() {
      if (program !== undefined) signalProcess(program.identity, "SIGSTOP");
    },
    resume() {
      if (program !== undefined) signalProcess(program.identity, "SIGCONT");
    },
    async start() {
      if (program === undefined) await start();
    },
    logTail: () => (readFileSync(logPath).length > 0 ? logTail(logPath) : "(nothing written)"),
  };
}
