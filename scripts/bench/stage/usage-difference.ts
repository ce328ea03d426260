import type { ProgramUsage } from "./program-usage.ts";

/** What each program used between two looks: the CPU time as a difference, the memory as it is now. */
export function usageDifference(
  before: Readonly<Record<string, ProgramUsage>>,
  after: Readonly<Record<string, ProgramUsage>>,
): Record<string, ProgramUsage> {
  return Object.fromEntries(
    Object.entries(after).map(([name, { cpuMs, rssMb }]) => [
      name,
      { cpuMs: cpuMs - (before[name]?.cpuMs ?? 0), rssMb },
    ]),
  );
}
