import { readClusterState } from "./cluster-state.ts";
import { stopProcess } from "./process/stop-process.ts";

/**
 * Ends every process that is written down in a cluster's folder, the last started first.
 *
 * @param graceMs how long each may take to end by itself; 0 kills it at once
 */
export async function stopRecorded(folder: string, graceMs: number): Promise<void> {
  for (const { name, identity } of readClusterState(folder)?.processes.toReversed() ?? []) {
    await stopProcess(identity, { name, graceMs });
  }
}
