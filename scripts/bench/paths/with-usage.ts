import { type MachineShare, machineShare } from "../stage/machine-share.ts";
import { machineTime } from "../stage/machine-time.ts";
import type { ProgramUsage } from "../stage/program-usage.ts";
import type { Stage } from "../stage/stage.ts";
import { usageDifference } from "../stage/usage-difference.ts";

/** Does the work, and returns what every program used meanwhile and how busy others kept the machine. */
export async function withUsage(
  stage: Pick<Stage, "usage">,
  work: () => Promise<void>,
): Promise<{ usage: Record<string, ProgramUsage>; machine: MachineShare }> {
  const before = await stage.usage();
  const machineBefore = machineTime();
  await work();
  const machineAfter = machineTime();
  const usage = usageDifference(before, await stage.usage());
  const oursMs = Object.values(usage).reduce((sum, { cpuMs }) => sum + cpuMs, 0);
  return { usage, machine: machineShare(machineBefore, machineAfter, oursMs) };
}
