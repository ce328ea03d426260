import { waitUntil } from "../scripts/cluster/process/wait-until.ts";

/** Waits for what sockets, timers and other processes bring, which takes its time. */
export async function eventually(condition: () => boolean | Promise<boolean>): Promise<void> {
  await waitUntil(condition, { what: String(condition), limitMs: 60_000, intervalMs: 5 });
}
