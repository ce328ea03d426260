import type { Log } from "../../cluster/log.ts";
import type { BenchEnvironment } from "../environment/environment.ts";
import {
  type MachineShare,
  machineShare,
  machineTime,
  type ProgramUsage,
  usageDifference,
} from "../environment/usage.ts";

/** Does the work, and returns what every program used meanwhile and how busy others kept the machine. */
export async function withUsage(
  environment: Pick<BenchEnvironment, "usage">,
  work: () => Promise<void>,
): Promise<{ usage: Record<string, ProgramUsage>; machine: MachineShare }> {
  const before = await environment.usage();
  const machineBefore = machineTime();
  await work();
  const machineAfter = machineTime();
  const usage = usageDifference(before, await environment.usage());
  const oursMs = Object.values(usage).reduce((sum, { cpuMs }) => sum + cpuMs, 0);
  return { usage, machine: machineShare(machineBefore, machineAfter, oursMs) };
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
