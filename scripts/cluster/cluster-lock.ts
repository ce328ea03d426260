import { join } from "node:path";
import { clustersFolder } from "./folders.ts";
import { withFileLock } from "./process/file-lock.ts";

const LIMIT_MS = 120_000;

/** Runs `work` while no other command is at work on the cluster of that name. */
export function withClusterLock<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
  const what = `another command on the cluster "${name}"`;
  return withFileLock(join(clustersFolder(), `${name}.lock`), { what, limitMs: LIMIT_MS }, work);
}
