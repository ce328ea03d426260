import { join } from "node:path";
import { isProgram } from "./is-program.ts";

/** Folders that Debian keeps out of an ordinary user's PATH. */
export const SYSTEM_FOLDERS: readonly string[] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/** Returns where a program is that the shell would find, or undefined. */
export function findOnPath(name: string, environment: NodeJS.ProcessEnv = process.env): string | undefined {
  const folders = (environment.PATH ?? "").split(":").filter((folder) => folder.startsWith("/"));
  return [...folders, ...SYSTEM_FOLDERS].map((folder) => join(folder, name)).find(isProgram);
}
