import { SYSTEM_FOLDERS } from "../sources/find-on-path.ts";

/**
 * Returns the environment with the folders of system programs in its PATH, which a root shell that came through `su` does
 * not have and which containerd looks for runc in.
 */
export function systemEnvironment(environment: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  const folders = (environment.PATH ?? "").split(":").filter((folder) => folder !== "");
  const missing = SYSTEM_FOLDERS.filter((folder) => !folders.includes(folder));
  return { ...environment, PATH: [...folders, ...missing].join(":") };
}
