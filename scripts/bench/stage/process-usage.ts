import { readFileSync } from "node:fs";
import type { ProgramUsage } from "./program-usage.ts";

// USER_HZ, which the kernel shows times to programs in, is 100 on every architecture that Linux has in use.
const TICK_MS = 10;

/** What a process has used since its start, from /proc. @throws Error when there is no such process */
export function processUsage(pid: number): ProgramUsage {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The command in parentheses may hold blanks and parentheses itself: the fields begin after the last one.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [userTicks, systemTicks] = [Number(fields[11]), Number(fields[12])];
  const rssKb = Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  return { cpuMs: (userTicks + systemTicks) * TICK_MS, rssMb: rssKb / 1024 };
}
