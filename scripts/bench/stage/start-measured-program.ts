import { logTail } from "../../cluster/process/log-tail.ts";
import { startProgram } from "../../cluster/process/start-program.ts";
import { stopProcess } from "../../cluster/process/stop-process.ts";
import { waitUntil } from "../../cluster/process/wait-until.ts";
import type { MeasuredProgram } from "./measured-program.ts";
import { type MetricsText, parseMetrics } from "./metrics-text.ts";

const START_LIMIT_MS = 30_000;
const STOP_GRACE_MS = 10_000;

/** Starts one of our programs so that the kernel ends it with this process, and asks until it says that it is ready. */
export async function startMeasuredProgram(options: {
  name: string;
  command: readonly [string, ...string[]];
  environment: NodeJS.ProcessEnv;
  folder: string;
  logPath: string;
  /** Where its `/metrics` and `/readyz` are, such as `http://127.0.0.1:9090`. */
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
  // Whoever started it waits for it, perhaps not at once.
  ready.catch(() => undefined);
  return {
    identity: program.identity,
    startedAt,
    metrics,
    ready,
    stop: () => stopProcess(program.identity, { name, graceMs: STOP_GRACE_MS }),
  };

  async function metrics(): Promise<MetricsText> {
    const response = await fetch(`${metricsUrl}/metrics`, { signal: AbortSignal.timeout(5000) });
    return parseMetrics(await response.text());
  }

  async function isReady(): Promise<boolean> {
    try {
      const { ok } = await fetch(`${metricsUrl}/readyz`, { signal: AbortSignal.timeout(2000) });
      return options.isReady({ readyz: ok, metrics: await metrics() });
    } catch {
      // It does not listen yet; the limit of the wait tells when that has gone on for too long.
      return false;
    }
  }
}
