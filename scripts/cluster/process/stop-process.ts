import { readClusterState } from "../cluster-state.ts";
import { isRunning, type ProcessIdentity } from "./process-identity.ts";
import { waitUntil } from "./wait-until.ts";

export interface StopProcessOptions {
  /** The process's name in messages. */
  name: string;
  /** How long it may take to end by itself after SIGTERM; 0 kills it at once. @default 5000 */
  graceMs?: number;
}

/**
 * Ends exactly the recorded process: with SIGTERM, and after the grace time with SIGKILL. Does nothing if it has ended.
 *
 * @throws Error if it still runs 30 s after SIGKILL
 */
export async function stopProcess(identity: ProcessIdentity, options: StopProcessOptions): Promise<void> {
  const graceMs = options.graceMs ?? 5000;
  if (graceMs > 0 && signalProcess(identity, "SIGTERM")) {
    const end = performance.now() + graceMs;
    while (performance.now() < end && isRunning(identity)) await new Promise((resolve) => setTimeout(resolve, 10));
  }
  if (!signalProcess(identity, "SIGKILL")) return;
  await waitUntil(() => !isRunning(identity), {
    what: `${options.name} (process ${identity.pid}) to end after SIGKILL`,
    limitMs: 30_000,
    intervalMs: 5,
  });
}

/** Sends a signal to exactly the recorded process; returns whether it received the signal. */
export function signalProcess(identity: ProcessIdentity, signal: NodeJS.Signals): boolean {
  if (!isRunning(identity)) return false;
  try {
    process.kill(identity.pid, signal);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return false;
    throw error;
  }
}

/**
 * Ends every process that is recorded in a cluster's folder, the last started first.
 *
 * @param graceMs how long each may take to end by itself; 0 kills it at once
 */
export async function stopRecorded(folder: string, graceMs: number): Promise<void> {
  for (const { name, identity } of readClusterState(folder)?.processes.toReversed() ?? []) {
    await stopProcess(identity, { name, graceMs });
  }
}
