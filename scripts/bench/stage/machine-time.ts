import { readFileSync } from "node:fs";

/** Time of all cores together since the machine's start, in milliseconds. */
export interface MachineTime {
  readonly totalMs: number;
  readonly idleMs: number;
}

const TICK_MS = 10;

/** Reads it from /proc/stat, https://docs.kernel.org/filesystems/proc.html#miscellaneous-kernel-statistics-in-proc-stat */
export function machineTime(stat: string = readFileSync("/proc/stat", "utf8")): MachineTime {
  // user nice system idle iowait irq softirq steal; the guests' times that follow are part of user and nice.
  const ticks = stat.slice(0, stat.indexOf("\n")).trim().split(/\s+/).slice(1, 9).map(Number);
  const [, , , idle = 0, iowait = 0] = ticks;
  return { totalMs: ticks.reduce((sum, count) => sum + count, 0) * TICK_MS, idleMs: (idle + iowait) * TICK_MS };
}
