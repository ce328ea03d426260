import { readFile } from "node:fs/promises";

/** For everything other than front door connections: the API server's, the API's, the log, and kept ones to pods. */
const OTHER_FILES = 256;

/** How many connections fit into that many open files: each uses one for the visitor and one for the pod. */
export function connectionsWithin(openFiles: number): number {
  return Math.max(1, Math.floor((openFiles - OTHER_FILES) / 2));
}

/** The open files that so many connections and everything else need. */
export function openFilesFor(connections: number): number {
  return 2 * connections + OTHER_FILES;
}

/** Reads the limit of open files; undefined on a system that does not report it, such as macOS. */
export async function readOpenFilesLimit(path = "/proc/self/limits"): Promise<number | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch {
    // Not on Linux, or a runtime without permission to read it.
    return undefined;
  }
  const [, soft] = /^Max open files +(\d+|unlimited) /m.exec(text) ?? [];
  if (soft === undefined) return undefined;
  return soft === "unlimited" ? Number.POSITIVE_INFINITY : Number(soft);
}
