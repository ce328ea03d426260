import { logTail } from "../../cluster/process/log-tail.ts";
import type { ProcessIdentity } from "../../cluster/process/process-identity.ts";
import { startProgram } from "../../cluster/process/start-program.ts";
import { stopProcess } from "../../cluster/process/stop-process.ts";
import { waitUntil } from "../../cluster/process/wait-until.ts";
import { getOnce } from "./get-once.ts";
import { type MetricsText, type ProgramUsage, parseMetrics } from "./usage.ts";

/** One of our programs in a separate process. */
export interface MeasuredProgram {
  readonly identity: ProcessIdentity;
  /** The time of its start, in milliseconds of `performance.now`. */
  readonly startedAt: number;
  /** Reads it from the program itself. */
  metrics(): Promise<MetricsText>;
  /** Resolves when it is ready. Rejects with the end of its log if it ends or does not become ready. */
  readonly ready: Promise<void>;
  /** Sends SIGTERM, and SIGKILL after 10 s. */
  stop(): Promise<void>;
}

/**
 * This process's environment without the settings of the caller's own `tenancy`, which would change what is measured.
 */
export function programEnvironment(settings: Record<string, string>): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("TENANCY_"));
  return { ...Object.fromEntries(inherited), ...settings };
}

const START_LIMIT_MS = 30_000;
const STOP_GRACE_MS = 10_000;

/** Starts one of our programs, and polls until it is ready. The kernel ends it with this process. */
export async function startMeasuredProgram(options: {
  name: string;
  command: readonly [string, ...string[]];
  environment: NodeJS.ProcessEnv;
  folder: string;
  logPath: string;
  /** The address of its `/metrics` and `/readyz`, such as `http://127.0.0.1:9090`. */
  metricsUrl: string;
  isReady(probe: { readyz: boolean; metrics: MetricsText }): boolean;
  signal: AbortSignal;
}): Promise<MeasuredProgram> {
  const { name, metricsUrl, signal, logPath } = options;
  const [command, ...programArguments] = options.command;
  const startedAt = performance.now();
  const program = await startProgram({
    name,
    command,
    arguments: programArguments,
    environment: options.environment,
    folder: options.folder,
    logPath,
    lifetime: "parent",
  });
  const ready = waitUntil(
    async () => {
      const ending = program.ending();
      if (ending !== undefined) throw new Error(`Cannot measure: ${name} ended (${ending})\n${logTail(logPath)}`);
      return isReady();
    },
    { what: `${name} to be ready`, limitMs: START_LIMIT_MS, intervalMs: 20, signal, explain: () => logTail(logPath) },
  ).then(() => undefined);
  // The caller awaits it later.
  ready.catch(() => undefined);
  return {
    identity: program.identity,
    startedAt,
    metrics,
    ready,
    stop: () => stopProcess(program.identity, { name, graceMs: STOP_GRACE_MS }),
  };

  async function metrics(): Promise<MetricsText> {
    return parseMetrics((await getOnce(`${metricsUrl}/metrics`, { timeoutMs: 5000 })).text);
  }

  async function isReady(): Promise<boolean> {
    try {
      const { ok } = await getOnce(`${metricsUrl}/readyz`, { timeoutMs: 2000 });
      return options.isReady({ readyz: ok, metrics: await metrics() });
    } catch {
      // It is not listening yet; the time limit of the wait reports a longer delay.
      return false;
    }
  }
}

/** The usage of one of our programs since its start, from its metrics. It is more precise than the ticks of /proc. */
export async function programMetricsUsage(program: MeasuredProgram): Promise<ProgramUsage> {
  const metrics = await program.metrics();
  return {
    cpuMs: metrics.sum("process_cpu_seconds_total") * 1000,
    rssMb: metrics.sum("process_resident_memory_bytes") / 2 ** 20,
  };
}
