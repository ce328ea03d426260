import { readFileSync } from "node:fs";

// Reading a file of a control group that was removed after the open fails with ENODEV.
const GONE = ["ENOENT", "ESRCH", "ENODEV"];

/**
 * Returns what was read, or undefined if the file no longer exists. Files of /proc disappear with their process, and
 * those of /sys/fs/cgroup with their group, also while they are read.
 *
 * @param alsoWhen additional error codes that mean that there is nothing to read
 */
export function unlessGone<T>(read: () => T, alsoWhen: readonly string[] = []): T | undefined {
  try {
    return read();
  } catch (error) {
    if ([...GONE, ...alsoWhen].includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  }
}

/** Returns the content of a file, or undefined if it does not exist. */
export function readIfThere(path: string): string | undefined {
  return unlessGone(() => readFileSync(path, "utf8"));
}
