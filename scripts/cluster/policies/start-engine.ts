import { readFileSync } from "node:fs";
import { join } from "node:path";
import { recordProcess } from "../cluster-state.ts";
import { logTail } from "../process/log-tail.ts";
import { type Program, startProgram } from "../process/start-program.ts";
import { waitUntil } from "../process/wait-until.ts";
import type { Slot } from "../slot.ts";

export interface StartEngineOptions {
  /** Of the cluster. */
  folder: string;
  command: string;
  nodeName: string;
  slot: Slot;
  kubeconfigPath: string;
}

/** The engine's name in the cluster's state. */
export const ENGINE = "network-policies";

const START_LIMIT_MS = 60_000;

/**
 * Starts a cluster's policy engine and waits until it handles packets, which it does once it has read all pods and
 * policies.
 *
 * @throws Error with the end of its log if it ends, or does not get ready in time
 */
export async function startEngine(options: StartEngineOptions): Promise<Program> {
  const { folder, slot } = options;
  const program = await startProgram({
    name: ENGINE,
    command: options.command,
    arguments: [
      `--kubeconfig=${options.kubeconfigPath}`,
      `--node=${options.nodeName}`,
      `--node-address=${slot.address}`,
      `--pod-network=${slot.podNetwork}.0/24`,
      `--queue=${slot.queue}`,
    ],
    logPath: join(folder, "log", `${ENGINE}.log`),
    lifetime: "detached",
  });
  recordProcess(folder, program);
  await waitUntil(
    () => {
      const ending = program.ending();
      if (ending !== undefined) throw new Error(`Cannot start ${ENGINE}: ${ending}\n${logTail(program.logPath)}`);
      return hasReader(slot.queue);
    },
    {
      what: "the policy engine to judge packets",
      limitMs: START_LIMIT_MS,
      intervalMs: 20,
      explain: () => logTail(program.logPath),
    },
  );
  return program;
}

/** By the first column of what the kernel tells of the queues that a process reads. */
function hasReader(queue: number): boolean {
  const lines = readFileSync("/proc/net/netfilter/nfnetlink_queue", "utf8").split("\n");
  return lines.some((line) => Number(line.trim().split(/\s+/)[0]) === queue && line !== "");
}
