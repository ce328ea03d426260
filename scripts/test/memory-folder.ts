import { statfsSync } from "node:fs";
import { freemem } from "node:os";
import { readIfThere } from "../cluster/process/read-if-there.ts";

const FOLDER = "/dev/shm";
const LEAST_BYTES = 2 * 1024 ** 3;

/** @returns a folder in memory; undefined if there is none with enough space in which programs can run */
export function memoryFolder(): string | undefined {
  const mounts = readIfThere("/proc/mounts")?.split("\n") ?? [];
  const [, , type, options = ""] = mounts.map((line) => line.split(" ")).find(([, path]) => path === FOLDER) ?? [];
  if (type !== "tmpfs" || /(?:^|,)(?:noexec|ro)(?:,|$)/.test(options)) return undefined;
  const { bavail, bsize } = statfsSync(FOLDER);
  return Math.min(bavail * bsize, freemem()) < LEAST_BYTES ? undefined : FOLDER;
}
