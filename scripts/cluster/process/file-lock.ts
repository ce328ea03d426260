import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { isRunning, type ProcessIdentity, readProcessIdentity } from "./process-identity.ts";
import { waitUntil } from "./wait-until.ts";

export interface FileLockOptions {
  /** What the lock is for, in the error message. */
  what: string;
  limitMs: number;
  /** Called once when another process holds the lock. */
  onWait?: (holder: ProcessIdentity) => void;
}

/**
 * Runs `work` while this process has the lock file. A lock whose holder has died is ignored.
 *
 * @throws Error if the lock is not available within the limit
 */
export async function withFileLock<Result>(
  path: string,
  options: FileLockOptions,
  work: () => Promise<Result>,
): Promise<Result> {
  mkdirSync(dirname(path), { recursive: true });
  let waiting = false;
  await waitUntil(
    () => {
      const holder = takeOrHolder(path);
      if (holder === undefined) return true;
      if (!waiting) options.onWait?.(holder);
      waiting = true;
      return false;
    },
    { what: `${options.what} (another process is at it, see ${path})`, limitMs: options.limitMs, intervalMs: 200 },
  );
  try {
    return await work();
  } finally {
    rmSync(path, { force: true });
  }
}

/** Takes the lock, or returns its holder. Because of the link, the file appears with its whole content. */
function takeOrHolder(path: string): ProcessIdentity | undefined {
  const own = `${path}.${process.pid}`;
  writeFileSync(own, JSON.stringify(readProcessIdentity(process.pid)));
  try {
    linkSync(own, path);
    return undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    const holder = readHolder(path);
    // It was released in the meantime; by now another process may hold it.
    if (holder === undefined) return readProcessIdentity(process.pid) as ProcessIdentity;
    if (isRunning(holder)) return holder;
    rmSync(path, { force: true });
    return holder;
  } finally {
    rmSync(own, { force: true });
  }
}

function readHolder(path: string): ProcessIdentity | undefined {
  try {
    return JSON.parse(readFileSync(path, "utf8")) as ProcessIdentity;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}
