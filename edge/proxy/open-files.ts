import { readFile } from "node:fs/promises";

/** For all that are no connections through the front door: the API server's, the API's, the log, and kept ones to pods. */
const OTHER_FILES = 256;

/**
 * How many connections fit into a process that may have so many open files: each takes one file for the visitor and one
 * for the pod.
 */
export function connectionsWithin(openFiles: number): number {
  return Math.max(1, Math.floor((openFiles - OTHER_FILES) / 2));
}

/** The open files that so many connections need, and all else. */
export function openFilesFor(connections: number): number {
  return 2 * connections + OTHER_FILES;
}

/** Reads how many open files this process may have; undefined on a system that does not tell, as macOS. */
export async function readOpenFilesLimit(path = "/proc/self/limits"): Promise<number | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch {
    // Not on Linux, or a runtime that may not read it.
    return undefined;
  }
  const [, soft] = /^Max open files +(\d+|unlimited) /m.exec(text) ?? [];
  if (soft === undefined) return undefined;
  return soft === "unlimited" ? Number.POSITIVE_INFINITY : Number(soft);
}
