import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { recordProcess } from "../cluster-state.ts";
import { createApiClient } from "../kubernetes/api-client.ts";
import { logTail } from "../process/log-tail.ts";
import { type Program, startProgram } from "../process/start-program.ts";
import { waitUntil } from "../process/wait-until.ts";
import { NODE_LABEL } from "./nodes.ts";
import { type SimulatedNodesOptions, simulatedNodesDefaults } from "./options.ts";

export interface StartSimulatedNodesProcessOptions extends SimulatedNodesOptions {
  kubeconfigPath: string;
  /** The cluster's folder. */
  folder: string;
  lifetime: "parent" | "detached";
}

const START_LIMIT_MS = 90_000;

/**
 * Starts simulated nodes in a process of their own and waits until they are registered.
 *
 * @throws Error with the end of its log when it ends or they do not appear
 */
export async function startSimulatedNodesProcess(options: StartSimulatedNodesProcessOptions): Promise<Program> {
  const { folder, lifetime, ...rest } = options;
  const program = await startProgram({
    name: "simulated-nodes",
    // It starts in a fifth of the time that Node takes to load TypeScript, and most test files start one.
    command: fileURLToPath(new URL("../../../node_modules/.bin/bun", import.meta.url)),
    arguments: [fileURLToPath(new URL("./main.ts", import.meta.url)), JSON.stringify(rest)],
    logPath: join(folder, "log", "simulated-nodes.log"),
    lifetime,
  });
  recordProcess(folder, program);
  const client = createApiClient(options.kubeconfigPath);
  const wanted = simulatedNodesDefaults(options).nodes;
  try {
    await waitUntil(
      async () => {
        const ending = program.ending();
        if (ending !== undefined) {
          throw new Error(`Cannot start the simulated nodes: ${ending}\n${logTail(program.logPath)}`);
        }
        const { text } = await client.call({ method: "GET", path: `/api/v1/nodes?labelSelector=${NODE_LABEL}` });
        return ((JSON.parse(text) as { items?: unknown[] }).items?.length ?? 0) >= wanted;
      },
      { what: "the simulated nodes", limitMs: START_LIMIT_MS, explain: () => logTail(program.logPath) },
    );
  } finally {
    client.close();
  }
  return program;
}
