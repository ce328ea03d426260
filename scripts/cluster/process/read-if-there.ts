import { readFileSync } from "node:fs";

/** Returns what a file holds, or undefined when it is not there: one of /proc goes with its process, also in the middle of being read. */
export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}
