import type { Log } from "../../cluster/log.ts";
import type { BenchEnvironment } from "../environment/start-environment.ts";
import { type MachineShare, machineShare, machineTime } from "../environment/usage.ts";

/**
 * Runs the work, and returns how much CPU time every program used during it, how much memory it has now, and how busy
 * others kept the machine.
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

/** Tells every 5 s how far something is, while `work` goes on. */
export async function reportEvery<T>(log: Log, line: () => string, work: () => Promise<T>): Promise<T> {
  const timer = setInterval(() => log(line()), EVERY_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
