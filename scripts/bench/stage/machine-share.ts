import type { MachineTime } from "./machine-time.ts";

/** Where the machine's CPU time went while something was measured, as shares of all of it. */
export interface MachineShare {
  readonly idle: number;
  /** To programs that are not part of what is measured: they make every time longer. */
  readonly others: number;
}

/** @param oursMs CPU time of all measured programs between the two looks, in milliseconds */
export function machineShare(before: MachineTime, after: MachineTime, oursMs: number): MachineShare {
  const totalMs = after.totalMs - before.totalMs;
  if (totalMs <= 0) return { idle: 0, others: 0 };
  const idleMs = after.idleMs - before.idleMs;
  return { idle: idleMs / totalMs, others: Math.max(0, totalMs - idleMs - oursMs) / totalMs };
}
