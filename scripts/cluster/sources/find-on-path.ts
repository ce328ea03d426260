import { join } from "node:path";
import { isProgram } from "./is-program.ts";

// Debian keeps these out of an ordinary user's PATH, and a root shell that came through `su` has the user's.
const SYSTEM_FOLDERS = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/** Returns where a program is that the shell would find, or undefined. */
export function findOnPath(name: string, environment: NodeJS.ProcessEnv = process.env): string | undefined {
  const folders = (environment.PATH ?? "").split(":").filter((folder) => folder.startsWith("/"));
  return [...folders, ...SYSTEM_FOLDERS].map((folder) => join(folder, name)).find(isProgram);
}
