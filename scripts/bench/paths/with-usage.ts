import type { Log } from "../../cluster/log.ts";
import type { BenchEnvironment } from "../environment/start-environment.ts";
import { type MachineShare, machineShare, machineTime } from "../environment/usage.ts";

/**
 * Runs the work. Returns the CPU time of every program during it, their memory afterwards, and how much of the
 * machine's time other programs used.
 */
export async function withUsage(
  environment: Pick<BenchEnvironment, "usage">,
  work: () => Promise<void>,
): Promise<{ cpuMs: Record<string, number>; rssMb: Record<string, number>; machine: MachineShare }> {
  const before = await environment.usage();
  const machineBefore = machineTime();
  await work();
  const machineAfter = machineTime();
  const after = Object.entries(await environment.usage());
  const cpuMs = Object.fromEntries(after.map(([name, now]) => [name, now.cpuMs - (before[name]?.cpuMs ?? 0)]));
  const rssMb = Object.fromEntries(after.map(([name, now]) => [name, now.rssMb]));
  const oursMs = Object.values(cpuMs).reduce((sum, ms) => sum + ms, 0);
  return { cpuMs, rssMb, machine: machineShare(machineBefore, machineAfter, oursMs) };
}

const EVERY_MS = 5000;

/** Prints the progress every 5 s while `work` runs. */
export async function reportEvery<T>(log: Log, line: () => string, work: () => Promise<T>): Promise<T> {
  const timer = setInterval(() => log(line()), EVERY_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
