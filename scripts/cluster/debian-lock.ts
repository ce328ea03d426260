import { join } from "node:path";
import { cacheFolder } from "./folders.ts";
import { withFileLock } from "./process/file-lock.ts";

/** Longer than the slowest installation takes. */
const LIMIT_MS = 30 * 60_000;

/** Runs `work` while no other command of this project is at work with apt, which lets one in at a time and turns others away. */
export function withDebianLock<Result>(work: () => Promise<Result>): Promise<Result> {
  const what = "Debian's packages";
  return withFileLock(join(cacheFolder(), "debian.lock"), { what, limitMs: LIMIT_MS }, work);
}
