import { readFileSync } from "node:fs";

// ENODEV is what a file of a removed control group answers that was opened before.
const GONE = ["ENOENT", "ESRCH", "ENODEV"];

/**
 * What was read, or undefined where it is gone: files of /proc go with their process and those of /sys/fs/cgroup with
 * their group, also in the middle of being read.
 *
 * @param alsoWhen more codes of errors that stand for nothing to read
 */
export function unlessGone<T>(read: () => T, alsoWhen: readonly string[] = []): T | undefined {
  try {
    return read();
  } catch (error) {
    if ([...GONE, ...alsoWhen].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}

/** Returns what a file holds, or undefined when it is not there. */
export function readIfThere(path: string): string | undefined {
  return unlessGone(() => readFileSync(path, "utf8"));
}
