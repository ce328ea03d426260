import { accessSync, constants, statSync } from "node:fs";
import { join } from "node:path";

/** Folders that Debian keeps out of an ordinary user's PATH. */
export const SYSTEM_FOLDERS: readonly string[] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/** Returns where a program is that the shell would find, or undefined. */
export function findOnPath(name: string, environment: NodeJS.ProcessEnv = process.env): string | undefined {
  const folders = (environment.PATH ?? "").split(":").filter((folder) => folder.startsWith("/"));
  return [...folders, ...SYSTEM_FOLDERS].map((folder) => join(folder, name)).find(isProgram);
}

/** Whether a path is a file that this user may run. */
export function isProgram(path: string): boolean {
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) return false;
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch (error) {
    if (["EACCES", "EPERM"].includes((error as NodeJS.ErrnoException).code ?? "")) return false;
    throw error;
  }
}
