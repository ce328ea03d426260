import { readdirSync, readFileSync } from "node:fs";
import { readIfThere } from "./read-if-there.ts";

/** Identifies a process, so that a later process with the same pid is not mistaken for it. */
export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks between the machine's start and the process's, from /proc/<pid>/stat. */
  readonly startTime: number;
  /** The machine's start, from /proc/sys/kernel/random/boot_id. */
  readonly bootId: string;
}

/**
 * Returns the identity of a running process, or undefined if there is none with that pid. Zombies do not count.
 */
export function readProcessIdentity(pid: number): ProcessIdentity | undefined {
  const stat = readIfThere(`/proc/${pid}/stat`);
  if (stat === undefined) return undefined;
  // The command in parentheses may contain blanks and parentheses. So the fields begin after the last parenthesis.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const state = fields[0];
  const startTime = Number(fields[19]);
  if (state === "X" || !Number.isFinite(startTime)) return undefined;
  if (state === "Z" && !hasOtherThreads(pid)) return undefined;
  return { pid, startTime, bootId: readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim() };
}

/** Whether the recorded process still runs. */
export function isRunning(identity: ProcessIdentity): boolean {
  const now = readProcessIdentity(identity.pid);
  return now !== undefined && now.startTime === identity.startTime && now.bootId === identity.bootId;
}

/** A process keeps its sockets until its last thread has ended, even if its first thread has. */
function hasOtherThreads(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).length > 1;
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return false;
    throw error;
  }
}
