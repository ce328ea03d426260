import { join } from "node:path";
import { recordProcess } from "./cluster-state.ts";
import { createApiClient } from "./kubernetes/api-client.ts";
import { type ApiServerFlagsOptions, apiServerFlags } from "./kubernetes/api-server-flags.ts";
import { logTail } from "./process/log-tail.ts";
import { type Program, startProgram } from "./process/start-program.ts";
import { waitUntil } from "./process/wait-until.ts";

export interface ApiServerOptions {
  /** The cluster's folder. */
  folder: string;
  command: string;
  kubeconfigPath: string;
  lifetime: "parent" | "detached";
  flags: Omit<ApiServerFlagsOptions, "folder">;
  /** Come after the others, so they win, as in `--watch-cache=false`. */
  extraFlags?: readonly string[];
  /** Answers with 200 when it is ready enough. @default /readyz */
  readyPath?: string;
}

const START_LIMIT_MS = 120_000;

/**
 * Starts an API server on loopback and waits until it says that it is ready.
 *
 * @throws Error with the end of its log when it ends or does not become ready
 */
export async function startApiServer(options: ApiServerOptions): Promise<Program> {
  const program = await startProgram({
    name: "kube-apiserver",
    command: options.command,
    arguments: [...apiServerFlags({ ...options.flags, folder: options.folder }), ...(options.extraFlags ?? [])],
    logPath: join(options.folder, "log", "kube-apiserver.log"),
    lifetime: options.lifetime,
  });
  recordProcess(options.folder, program);
  const client = createApiClient(options.kubeconfigPath);
  try {
    await waitUntil(
      async () => {
        const ending = program.ending();
        if (ending !== undefined) {
          throw new Error(`Cannot start kube-apiserver: ${ending}\n${logTail(program.logPath)}`);
        }
        return (await readiness(client, options.readyPath ?? "/readyz")) === 200;
      },
      {
        what: "kube-apiserver to be ready",
        limitMs: START_LIMIT_MS,
        intervalMs: 30,
        explain: () => logTail(program.logPath),
      },
    );
  } finally {
    client.close();
  }
  return program;
}

async function readiness(client: ReturnType<typeof createApiClient>, path: string): Promise<number> {
  try {
    return (await client.call({ method: "GET", path, limitMs: 3000 })).status;
  } catch (error) {
    // Not listening yet, or too busy; the limit of the wait tells when that has gone on for too long.
    const code = (error as NodeJS.ErrnoException).code ?? "";
    if (["ECONNREFUSED", "ECONNRESET", "ETIMEDOUT"].includes(code)) return 0;
    throw error;
  }
}
